package corpus;

import java.util.List;

/** Classes of the corpus' jobs that its savepoints do not describe, as the rows that these jobs list have them. */
public class T {
    public static class Inner {
        public long id;
        public String label;
    }

    public static class InnerSub extends Inner {
        public int extra;
    }

    public static class InnerReg extends Inner {
        public String reg;
    }

    public static class Generic {
        private int a;
        private String b;
        private List<Object> c;

        Generic(int a) {
            this.a = a;
        }
    }
}
