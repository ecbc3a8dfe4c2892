// Runs before the application is loaded, so that a page in a chosen theme does not flash in the other one.
import { applyTheme } from "./theme";

applyTheme();
