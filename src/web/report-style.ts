/**
 * The page's whole style. Verdict colours keep apart under the common kinds of colour blindness (after Okabe and Ito),
 * and each has a pattern and a letter of its own, so that none of it depends on seeing colour. Paper is always light.
 */
export const STYLE = `
:root{color-scheme:light dark;--paper:#faf9f6;--card:#fff;--ink:#1d2327;--soft:#59636a;--line:#dfddd6;--faint:#f0eee8;--accent:#0b6472;
--sound:#187a6a;--missing:#cfccc3;--missing-line:#8f8b80;--torn:#c45500;--corrupt:#a8437f;--drifted:#0072b2;--poisoned:#e0a100;--unreadable:#3b3b3b;
--deep:#0b6472;--doubt:#b3401c;--mark:rgba(255,255,255,.72);--letter:#fff;--letter-poisoned:#1d2327;--error:#b3401c;--warning:#806000;--info:#46606b;--running:#fff3d6}
@media screen and (prefers-color-scheme:dark){:root{--paper:#14181a;--card:#1c2124;--ink:#e6e8e6;--soft:#9aa5aa;--line:#333b3f;--faint:#20262a;--accent:#6cc5d0;
--sound:#35a893;--missing:#3c4448;--missing-line:#6d777c;--torn:#f0803c;--corrupt:#d583b5;--drifted:#5aaee0;--poisoned:#ecbe4a;--unreadable:#c9c9c9;
--deep:#6cc5d0;--doubt:#f59a78;--mark:rgba(0,0,0,.55);--letter:#101314;--letter-poisoned:#101314;--error:#f59a78;--warning:#e6bd5c;--info:#9db8c3;--running:#3a2f12}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-padding-top:1rem}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main,header,footer{max-width:66rem;margin:0 auto;padding:0 1.5rem}
header{padding-top:3.25rem}
h1{font-size:clamp(1.75rem,4.6vw,2.75rem);line-height:1.12;letter-spacing:-.02em;font-weight:650;margin:.35rem 0 .6rem;text-wrap:balance}
h2{font-size:1.3rem;font-weight:650;letter-spacing:-.01em;margin:0 0 1rem}
h3{font-size:1rem;font-weight:600;margin:0;line-height:1.4;text-wrap:pretty;overflow-wrap:anywhere}
p{margin:.4rem 0}
section{margin:3.25rem 0}
header+main>section:first-child{margin-top:2rem}
a{color:var(--accent)}
code,.path{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;overflow-wrap:anywhere;unicode-bidi:isolate;direction:ltr}
bdi.path{white-space:pre-wrap}
time{white-space:nowrap}
.over{color:var(--soft);font-size:.8rem;letter-spacing:.09em;text-transform:uppercase;margin:0}
.soft{color:var(--soft)}
.small{font-size:.875rem}
.defs{position:absolute}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);margin:0}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:3px}
.running{background:var(--running);border-left:4px solid var(--warning);padding:.7rem 1rem;margin:.8rem 0 1.2rem;overflow-wrap:anywhere}
nav ul{display:flex;flex-wrap:wrap;gap:.3rem 1.3rem;list-style:none;margin:1.3rem 0 0;padding:.75rem 0 0;border-top:1px solid var(--line);font-size:.9rem}
nav a{text-decoration:none}
nav a:hover{text-decoration:underline}
.bar{display:block;width:100%;height:1.7rem;border-radius:5px;margin:0 0 1.1rem}
.tally{display:grid;grid-template-columns:repeat(auto-fill,minmax(14rem,1fr));gap:1.1rem 2rem;margin:0;padding:0;list-style:none}
.tally>li{border-top:1px solid var(--line);padding-top:.7rem}
.tally .kind{display:block}
.tally b{font-size:1.6rem;font-weight:600;letter-spacing:-.01em;line-height:1.3}
.tally .none b{color:var(--soft);font-weight:400}
.share{margin-left:.45rem}
.notes{list-style:none;margin:0;padding:0;color:var(--soft);font-size:.875rem;line-height:1.45}
.key{display:inline-block;flex:none;width:1.15rem;height:1.15rem;vertical-align:-.22rem;margin-right:.45rem;border-radius:3px}
.v-sound,.b-sound{fill:var(--sound)}.v-missing{fill:url(#p-missing)}.v-torn{fill:url(#p-torn)}.v-corrupt{fill:url(#p-corrupt)}
.v-drifted{fill:url(#p-drifted)}.v-poisoned{fill:url(#p-poisoned)}.v-unreadable{fill:url(#p-unreadable)}
.b-missing{fill:var(--missing)}.b-torn{fill:var(--torn)}.b-corrupt{fill:var(--corrupt)}.b-drifted{fill:var(--drifted)}.b-poisoned{fill:var(--poisoned)}.b-unreadable{fill:var(--unreadable)}
.m{stroke:var(--mark);stroke-width:1.4;fill:none}.m-missing{stroke:var(--missing-line);stroke-width:1;fill:none}.m-dot{fill:var(--mark)}
.letter{font:700 9px ui-sans-serif,system-ui,sans-serif;fill:var(--letter)}
.letter.on-missing{fill:var(--ink)}.letter.on-poisoned{fill:var(--letter-poisoned)}
.deep{fill:var(--deep)}.doubt{fill:var(--doubt)}.front{fill:var(--ink)}
.command{display:flex;align-items:stretch;margin:.5rem 0 0;border:1px solid var(--line);border-radius:7px;background:var(--card)}
.command code{flex:1;min-width:0;padding:.6rem .8rem;white-space:pre-wrap}
.command span{display:inline-block;max-width:100%}
.command button{flex:none;border:0;border-left:1px solid var(--line);border-radius:0 6px 6px 0;background:none;color:var(--accent);font:inherit;font-size:.85rem;padding:0 .95rem;cursor:pointer;min-width:5.2rem}
.command button:hover{background:var(--faint)}
.next{margin-top:2rem;padding:1.1rem 1.3rem 1.3rem;border-radius:10px;background:var(--faint)}
.next .over{margin:0}
.blocked{margin:.4rem 0 .7rem}
.map{display:grid;grid-template-columns:repeat(auto-fill,minmax(6.9rem,1fr));gap:.7rem .6rem;list-style:none;margin:.8rem 0 0;padding:0}
.map a,.map [role=img]{display:block;text-decoration:none;color:var(--soft);font-size:.78rem;line-height:1.35;border-radius:5px}
.map a:hover{color:var(--ink);text-decoration:underline}
.cell{display:block;width:100%;height:2.1rem;border-radius:4px;margin-bottom:.25rem}
.from,.what{display:block}
.from{color:var(--ink)}
.what .key{width:.95rem;height:.95rem;vertical-align:-.17rem;margin-right:.3rem}
.small-cells{grid-template-columns:repeat(auto-fill,minmax(1.9rem,1fr));gap:.25rem}
.small-cells li{position:relative}
.small-cells .cell{height:1.6rem;margin:0}
.small-cells .key{position:absolute;left:50%;top:50%;width:1rem;height:1rem;margin:-.5rem 0 0 -.5rem}
.skip{position:absolute;left:-99rem}
.skip:focus{position:static}
.strip{display:block;width:100%;height:3.4rem;border-radius:5px;margin-top:.6rem}
.lane{display:block;width:100%;height:.4rem;margin-top:.3rem;background:var(--faint)}
.axis{display:flex;justify-content:space-between;color:var(--soft);font-size:.8rem;margin:.35rem 0 0}
.legend{display:grid;grid-template-columns:repeat(auto-fill,minmax(17rem,1fr));gap:.35rem 1.5rem;list-style:none;margin:1.1rem 0 2rem;padding:0;font-size:.85rem;line-height:1.45;color:var(--soft)}
.legend li{padding-left:1.65rem;overflow-wrap:anywhere}
.legend .key{margin-left:-1.65rem;margin-right:.5rem}
.legend b{font-weight:600;color:var(--ink)}
.findings{list-style:none;margin:0;padding:0}
.findings>li{padding:1.25rem 0;border-top:1px solid var(--line);display:grid;grid-template-columns:7.5rem minmax(0,1fr);gap:.2rem 1.4rem}
.tag{font-size:.85rem;padding-top:.1rem}
.tag b{display:block;font-weight:600}
.error .tag b{color:var(--error)}.warning .tag b{color:var(--warning)}.info .tag b{color:var(--info)}
.evidence{color:var(--soft);font-size:.92rem;overflow-wrap:anywhere;unicode-bidi:isolate}
.rows{font-size:.92rem;margin:.2rem 0}
.cure{margin:.6rem 0 0;overflow-wrap:anywhere}
.yours{font-size:.8rem;border:1px solid var(--line);border-radius:99px;padding:.05rem .55rem;margin-left:.3rem;color:var(--soft);white-space:nowrap}
.facts{display:grid;grid-template-columns:minmax(8rem,13rem) minmax(0,1fr);gap:.55rem 1.5rem;margin:0}
.facts dt{color:var(--soft)}
.facts dt{grid-column:1}.facts dd{grid-column:2;margin:0;overflow-wrap:anywhere}
.facts ul{margin:.3rem 0;padding-left:1.2rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th{font-weight:500;color:var(--soft);text-align:left;white-space:nowrap}
th,td{padding:.42rem 1.1rem .42rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td{white-space:nowrap}
.number{text-align:right}
td.wide{white-space:normal;overflow-wrap:anywhere;min-width:15rem;width:60%}
td bdi.path{white-space:pre}td.wide bdi.path{white-space:pre-wrap}
td .path:not(bdi){display:inline-block;max-width:32rem;white-space:normal}
.facts+h3,.scroll+h3{margin-top:1.6rem}
td .small{font-size:inherit}
.kind{white-space:nowrap}
details{margin-top:.5rem}
summary{cursor:pointer;color:var(--accent);font-size:.9rem}
ol.steps{padding-left:1.3rem;margin:0 0 1.4rem}
ol.steps li{padding:.25rem 0;overflow-wrap:anywhere}
footer p{color:var(--soft);font-size:.85rem;padding:1.2rem 0 3.5rem;border-top:1px solid var(--line);margin:0}
tr:target td,li:target{background:var(--faint)}
@media (max-width:40rem){body{font-size:15px}main,header,footer{padding-left:1rem;padding-right:1rem}header{padding-top:1.8rem}section{margin:2.6rem 0}
.findings>li{grid-template-columns:minmax(0,1fr)}.tag b{display:inline}.facts{grid-template-columns:minmax(0,1fr);gap:.1rem}.facts dd{grid-column:1;margin-bottom:.7rem}
.tally{grid-template-columns:repeat(2,minmax(0,1fr));gap:.9rem 1rem}.map{grid-template-columns:repeat(auto-fill,minmax(4.9rem,1fr))}.small-cells{grid-template-columns:repeat(auto-fill,minmax(1.7rem,1fr))}
.next{padding:.9rem 1rem 1rem}.command{flex-direction:column}.command button{border-left:0;border-top:1px solid var(--line);padding:.5rem;border-radius:0 0 6px 6px}}
@media print{body{font-size:10.5pt;background:#fff}nav,.command button,.skip{display:none}main,header,footer{max-width:none;padding:0}header{padding-top:0}section{margin:1.6rem 0}
h2,h3,thead{break-after:avoid}tr,li,dd,.command,svg{break-inside:avoid}.scroll{overflow:visible}table{font-size:8.5pt}th,td,td bdi.path{white-space:normal}th,td{padding-right:.7rem}td.number{white-space:nowrap}td.wide{min-width:0;width:auto}td .path:not(bdi){display:inline}.small-cells{display:grid}details::details-content{content-visibility:visible;block-size:auto}
.command code{font-size:8.5pt}a{color:inherit;text-decoration:none}}
`;

/** Copies a command; without it the text can still be selected. */
export const SCRIPT = `
document.addEventListener('click',function(event){
var button=event.target.closest('button[data-copy]');if(!button)return;
var code=button.parentElement.querySelector('code');
var done=function(word,said){button.textContent=word;document.getElementById('said').textContent=said;
setTimeout(function(){button.textContent='Copy';document.getElementById('said').textContent=''},1600)};
var select=function(){var range=document.createRange();range.selectNodeContents(code);var chosen=getSelection();chosen.removeAllRanges();chosen.addRange(range);done('Selected','The command is selected')};
if(navigator.clipboard&&window.isSecureContext)navigator.clipboard.writeText(code.textContent).then(function(){done('Copied','The command is in the clipboard')},select);else select();
});
`;
