import{j as u}from"./chunk-5FXKZLTR.js";import{h as p,y as i}from"./chunk-GPIZWWXM.js";import{c as a}from"./chunk-YH3KFLPK.js";var r={db:null,dbs:null,key:null};function b(){return r}function E(e){let o=r.db;Object.assign(r,e),e.dbs===void 0&&e.db!==void 0&&e.db!==o&&!r.dbs?.split(`
`).includes(e.db??"")&&(r.dbs=null)}var m={title:"Which states are there, of which types, and how large?",sql:`SELECT table_name, state_name, state_kind, key_type, value_type, size_bytes
FROM StateMeta
ORDER BY size_bytes DESC`},c=[{title:"Up to where had the sources read?",sql:`SELECT topic, partition, starting_offset, details
FROM source_offsets`},{title:"Which operators are there, and how parallel are they?",sql:`SELECT operator_name, operator_uid, operator_parallelism, operator_max_parallelism
FROM operators`}],d=3;function h(e){let o=u(e).map(s=>({...s,states:s.states.filter(n=>n.key_type!==null&&n.state_kind!=="TIMER"&&n.table_name!==null)})).filter(s=>s.states.length),l=s=>Math.max(...s.states.map(n=>n.size_bytes??0)),[t]=o.sort((s,n)=>l(n)-l(s));return[...t?[{title:`What is in ${t.states[0].state_name} of ${t.label}?`,sql:`SELECT *
FROM ${i(t.states[0].table_name)}
LIMIT 100`},{title:`How many entries has each state of ${t.label}?`,sql:`SELECT state_name, count(*) AS entries
FROM ${i(t.table)}
GROUP BY state_name
ORDER BY entries DESC`}]:[],m,...c].slice(0,d)}function M(e,o){return a("section",{class:"questions","aria-label":"Questions to begin with",role:"region"},a("h2",{},"Questions to begin with"),a("ul",{},h(o).map(({title:l,sql:t})=>a("li",{},a("a",{href:p({db:e,sql:t,run:"1"}),title:t},l)))))}export{b as a,E as b,m as c,M as d};
