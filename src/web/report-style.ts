/**
 * The page's whole style. Verdict colours keep apart under the common kinds of colour blindness (after Okabe and Ito),
 * and each has a pattern and a letter of its own, so that none of it depends on seeing colour.
 */
export const STYLE = `
:root{color-scheme:light dark;--paper:#faf9f6;--card:#fff;--ink:#1d2327;--soft:#59636a;--line:#dfddd6;--faint:#efede7;--accent:#0b6472;
--sound:#1d8a78;--missing:#c9c6bd;--missing-line:#8f8b80;--torn:#d55e00;--corrupt:#a8437f;--drifted:#0072b2;--poisoned:#e0a100;--unreadable:#3b3b3b;
--mark:rgba(255,255,255,.72);--error:#b3401c;--warning:#8a6200;--info:#46606b}
@media (prefers-color-scheme:dark){:root{--paper:#14181a;--card:#1c2124;--ink:#e6e8e6;--soft:#9aa5aa;--line:#333b3f;--faint:#242a2d;--accent:#6cc5d0;
--sound:#35a893;--missing:#3c4448;--missing-line:#6d777c;--torn:#f0803c;--corrupt:#d583b5;--drifted:#5aaee0;--poisoned:#ecbe4a;--unreadable:#c9c9c9;
--mark:rgba(0,0,0,.55);--error:#f59a78;--warning:#e6bd5c;--info:#9db8c3}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main,header,footer{max-width:66rem;margin:0 auto;padding:0 1.5rem}
header{padding-top:3.5rem}
h1{font-size:clamp(1.9rem,5vw,3rem);line-height:1.12;letter-spacing:-.02em;font-weight:650;margin:.35rem 0 .6rem;text-wrap:balance}
h2{font-size:1.22rem;font-weight:650;letter-spacing:-.01em;margin:0 0 1rem}
h3{font-size:1rem;font-weight:600;margin:0;line-height:1.4;text-wrap:pretty}
p{margin:.4rem 0}
section{margin:3.25rem 0}
a{color:var(--accent)}
code,pre,.path{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;overflow-wrap:anywhere}
.over{color:var(--soft);font-size:.8rem;letter-spacing:.09em;text-transform:uppercase;margin:0}
.soft{color:var(--soft)}
.small{font-size:.875rem}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:3px}
.bar{display:block;width:100%;height:1.6rem;border-radius:5px;margin:1.9rem 0 1.1rem}
.tally{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:1.1rem 2rem;margin:0;padding:0;list-style:none}
.tally li{border-top:1px solid var(--line);padding-top:.7rem}
.tally b{display:block;font-size:1.55rem;font-weight:600;letter-spacing:-.01em;line-height:1.25}
.tally .none b{color:var(--soft);font-weight:400}
.key{display:inline-block;width:1.15rem;height:1.15rem;vertical-align:-.22rem;margin-right:.5rem;border-radius:3px}
.v-sound{fill:var(--sound)}.v-missing{fill:url(#p-missing)}.v-torn{fill:url(#p-torn)}.v-corrupt{fill:url(#p-corrupt)}
.v-drifted{fill:url(#p-drifted)}.v-poisoned{fill:url(#p-poisoned)}.v-unreadable{fill:url(#p-unreadable)}
.b-missing{fill:var(--missing)}.b-torn{fill:var(--torn)}.b-corrupt{fill:var(--corrupt)}.b-drifted{fill:var(--drifted)}.b-poisoned{fill:var(--poisoned)}.b-unreadable{fill:var(--unreadable)}
.m{stroke:var(--mark);stroke-width:1.4;fill:none}.m-missing{stroke:var(--missing-line);stroke-width:1;fill:none}.m-dot{fill:var(--mark)}
.letter{font:600 8px ui-sans-serif,system-ui,sans-serif;fill:#fff}
@media (prefers-color-scheme:dark){.letter{fill:#101314}}
.letter.on-missing{fill:var(--ink)}
.command{display:flex;align-items:stretch;margin:.5rem 0 0;border:1px solid var(--line);border-radius:7px;background:var(--card);overflow:hidden}
.command code{flex:1;min-width:0;padding:.6rem .8rem;white-space:pre-wrap}
.command button{flex:none;border:0;border-left:1px solid var(--line);background:none;color:var(--accent);font:inherit;font-size:.82rem;padding:0 .95rem;cursor:pointer;min-width:4.6rem}
.command button:hover{background:var(--faint)}
.command button:focus-visible{outline-offset:-3px}
.next{margin-top:2.2rem;padding:1.15rem 1.3rem 1.3rem;border-radius:10px;background:var(--faint)}
.next p{margin:0}
.findings{list-style:none;margin:0;padding:0}
.findings>li{padding:1.25rem 0;border-top:1px solid var(--line);display:grid;grid-template-columns:7.5rem minmax(0,1fr);gap:.2rem 1.4rem}
.tag{font-size:.8rem;padding-top:.15rem}
.tag b{display:block;font-weight:600}
.error .tag b{color:var(--error)}.warning .tag b{color:var(--warning)}.info .tag b{color:var(--info)}
.evidence{color:var(--soft);font-size:.92rem;overflow-wrap:anywhere;max-width:62rem}
.yours{font-size:.78rem;border:1px solid var(--line);border-radius:99px;padding:.05rem .55rem;margin-left:.45rem;color:var(--soft);white-space:nowrap}
.map{display:grid;grid-template-columns:repeat(auto-fill,minmax(5.4rem,1fr));gap:.55rem;list-style:none;margin:0;padding:0}
.map a{display:block;text-decoration:none;color:var(--soft);font-size:.72rem;line-height:1.3;border-radius:5px}
.map svg{display:block;width:100%;height:2rem;border-radius:4px;margin-bottom:.2rem}
.map a:hover{color:var(--ink)}
.strip{display:block;width:100%;height:3.4rem;border-radius:5px}
.axis{display:flex;justify-content:space-between;color:var(--soft);font-size:.78rem;margin:.35rem 0 0}
.facts{display:grid;grid-template-columns:minmax(8rem,14rem) minmax(0,1fr);gap:.55rem 1.5rem;margin:0}
.facts dt{color:var(--soft)}
.facts dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th{font-weight:500;color:var(--soft);text-align:left;white-space:nowrap}
th,td{padding:.42rem 1.1rem .42rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right}
td.wide{overflow-wrap:anywhere;min-width:12rem}
details{margin-top:.7rem}
summary{cursor:pointer;color:var(--accent);font-size:.9rem}
ol.steps{padding-left:1.3rem;margin:0 0 1.4rem}
ol.steps li{padding:.25rem 0}
footer{color:var(--soft);font-size:.82rem;padding-bottom:3.5rem;border-top:1px solid var(--line);padding-top:1.2rem}
tr:target td{background:var(--faint)}
@media (max-width:40rem){body{font-size:15px}main,header,footer{padding-left:1rem;padding-right:1rem}header{padding-top:2rem}section{margin:2.5rem 0}
.findings>li{grid-template-columns:minmax(0,1fr)}.tag b{display:inline;margin-right:.6rem}.facts{grid-template-columns:minmax(0,1fr);gap:.1rem}.facts dd{margin-bottom:.7rem}
.tally{grid-template-columns:repeat(2,minmax(0,1fr));gap:.9rem 1rem}.map{grid-template-columns:repeat(auto-fill,minmax(4.4rem,1fr))}}
@media print{.command button{display:none}section{break-inside:avoid}}
`;

/** Copies a command; without it the text can still be selected. */
export const SCRIPT = `
document.addEventListener('click',function(event){
var button=event.target.closest('button[data-copy]');if(!button)return;
var code=button.parentElement.querySelector('code');
var done=function(word){button.textContent=word;setTimeout(function(){button.textContent='Copy'},1600)};
var select=function(){var range=document.createRange();range.selectNodeContents(code);var chosen=getSelection();chosen.removeAllRanges();chosen.addRange(range);done('Selected')};
if(navigator.clipboard&&window.isSecureContext)navigator.clipboard.writeText(code.textContent).then(function(){done('Copied')},select);else select();
});
`;
