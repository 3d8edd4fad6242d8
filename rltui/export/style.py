"""How the page about a run looks: light or dark as the reader has it, on a screen of any width and on paper."""

CSS = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1b1f24; --dim: #667080; --line: #d8dde3; --box: #f6f8fa;
  --good: #1a7f37; --watch: #9a6700; --act: #cf222e;
  --s0: #1f6feb; --s1: #d9822b; --s2: #1a9e77; --s3: #b5479d; --s4: #6f7b86; --s5: #8a63d2; --s6: #b8860b;
  --s7: #0b7285 }
@media (prefers-color-scheme: dark) { :root { --bg: #0d1117; --fg: #dce3ea; --dim: #8b96a3; --line: #2b333d;
  --box: #151b23;
  --good: #3fb950; --watch: #d29922; --act: #f85149;
  --s0: #58a6ff; --s1: #f0a04b; --s2: #3fc9a0; --s3: #e37bce; --s4: #9aa7b4; --s5: #b794f4; --s6: #e3b341;
  --s7: #39c5cf } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 76rem; background: var(--bg); color: var(--fg);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere }
h2 { font-size: 1.05rem; margin: 2.5rem 0 .75rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line) }
h3 { font-size: .85rem; margin: 0; font-weight: 600 }
p { margin: .3rem 0 }
.dim { color: var(--dim) } .good { color: var(--good) } .watch { color: var(--watch) } .act { color: var(--act) }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .75rem; margin: 1.25rem 0 0 }
.facts div { background: var(--box); border: 1px solid var(--line); border-radius: 8px; padding: .6rem .8rem }
.facts dt { color: var(--dim); font-size: .78rem } .facts dd { margin: 0; font-size: 1.1rem;
  font-variant-numeric: tabular-nums }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1rem }
.small { grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)) }
figure { margin: 0; background: var(--box); border: 1px solid var(--line); border-radius: 8px;
  padding: .7rem .8rem .4rem }
figcaption { display: flex; justify-content: space-between; gap: 1rem; font-variant-numeric: tabular-nums }
svg { display: block; width: 100%; height: auto; margin-top: .4rem }
svg text { fill: var(--dim); font-size: 10.5px; font-variant-numeric: tabular-nums } svg path { fill: none }
svg .grid { stroke: var(--line); stroke-width: 1 } svg .mark { stroke: var(--dim); stroke-dasharray: 3 3 }
svg .line { stroke-width: 1.8; stroke-linejoin: round } svg .raw { stroke-width: 1; opacity: .35 }
svg circle { fill: var(--bg) } svg .gap { stroke: var(--act); stroke-width: 1.5 }
svg .s0 { stroke: var(--s0) } svg .s1 { stroke: var(--s1) } svg .s2 { stroke: var(--s2) } svg .s3 { stroke: var(--s3) }
svg .s4 { stroke: var(--s4) } svg .s5 { stroke: var(--s5) } svg .s6 { stroke: var(--s6) } svg .s7 { stroke: var(--s7) }
.key { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .3em }
.k0 { background: var(--s0) } .k1 { background: var(--s1) } .k2 { background: var(--s2) } .k3 { background: var(--s3) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
th { color: var(--dim); font-weight: 500; font-size: .8rem } td.n, th.n { text-align: right }
td { overflow-wrap: anywhere }
code, pre { font: 12.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .15rem 0 .6rem; padding: .5rem .7rem;
  background: var(--bg);
  border: 1px solid var(--line); border-radius: 6px }
details { background: var(--box); border: 1px solid var(--line); border-radius: 8px; padding: .5rem .8rem;
  margin: .5rem 0 }
summary { cursor: pointer; font-variant-numeric: tabular-nums } .role { color: var(--dim); font-size: .78rem }
@media print { body { max-width: none; padding: 0 } figure, details { break-inside: avoid } }
"""
