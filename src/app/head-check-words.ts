import { visible } from '../core/shell-line.ts';
import { counted, formatCount, plural } from '../core/units.ts';
import type { FolderHeadCheckReport } from './head-check-folder.ts';

const FILES_SHOWN = 20;

/** The report for people: the verdict first, then its numbers, then the files that differ. */
export function headCheckLines(report: FolderHeadCheckReport): string[] {
  const { meanLogProb, top1, byShift, perFile, skipped } = report;
  const shift = report.verdict === 'shifted' ? ` by ${report.shift}` : '';
  const lines = [
    `head check: ${report.verdict}${shift}: ${report.detail}`,
    `  ${counted(report.positions, 'place')} in ${formatCount(report.files)} of ${counted(report.filesThere, 'file')} (seed ${report.seed}); ${visible(report.head.tensor)}${report.head.tied ? ', tied' : ''}, ${counted(report.head.vocabulary, 'token')}`,
    `  mean log-probability of the next token: ${fixed(meanLogProb.stored)} as stored, ${fixed(meanLogProb.normed)} normed, ${fixed(meanLogProb.shuffled)} shuffled; entropy ${fixed(report.entropy)}`,
    `  likeliest token is the next one: ${percent(top1.stored)} as stored, ${percent(top1.normed)} normed`,
    `  by shift: ${byShift.map(({ shift: by, meanLogProb: mean }) => `${by > 0 ? '+' : ''}${by} ${fixed(mean)}`).join(', ')}`,
  ];
  if (report.undoneRms !== null) lines.push(`  size without the norm's weight: ${report.undoneRms.toFixed(4)} (1 behind the norm)`);
  if (report.zeroStates + report.nonFiniteStates > 0)
    lines.push(
      `  ${counted(report.zeroStates, 'state is', 'states are')} all zero, ${formatCount(report.nonFiniteStates)} ${plural(report.nonFiniteStates, 'is', 'are')} not finite`,
    );
  if (perFile.length > 0) lines.push(`  ${counted(perFile.length, 'file differs', 'files differ')} from the others:`);
  for (const file of perFile.slice(0, FILES_SHOWN))
    lines.push(`    ${visible(file.path)}: ${file.verdict}${file.shift === 0 ? '' : ` by ${file.shift}`}: ${file.detail}`);
  if (perFile.length > FILES_SHOWN) lines.push(`    and ${formatCount(perFile.length - FILES_SHOWN)} more; --json lists them all`);
  if (skipped.length > 0)
    lines.push(
      `  ${counted(skipped.length, 'chosen file')} could not be asked, first ${visible(skipped[0]?.path ?? '')}: ${visible(skipped[0]?.why ?? '')}`,
    );
  return lines;
}

function fixed(value: number): string {
  return value.toFixed(2);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
