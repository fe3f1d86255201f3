import { TidemarkError } from '../core/errors.ts';
import { countOf, formatRanges, type IndexRange, indicesOf } from '../core/ranges.ts';
import type { Report } from '../core/report.ts';
import type { Verdict } from '../core/verdict.ts';
import type { Work } from '../extract/extract.ts';

/** The verdicts whose files go into quarantine before their rows are made again. */
const SET_ASIDE = ['torn', 'corrupt', 'poisoned'] as const;

/**
 * What the driver is to do about a report: exactly what its plan says.
 * @throws TidemarkError `decision-needed` when a person must choose first
 */
export function workOf(report: Report): Work {
  if (report.plan.blockers.length > 0) {
    const blocking = report.findings.filter((finding) => report.plan.blockers.includes(finding.code));
    const lines = blocking.map((finding) => `${finding.code} ${finding.title}${rangesText(finding.ranges)}`);
    throw new TidemarkError('decision-needed', `a person must choose first; nothing was started\n  ${lines.join('\n  ')}`, {
      where: report.folder,
      hint: `tidemark assess ${report.folder}`,
    });
  }
  const setAside: { row: number; verdict: Verdict }[] = [];
  for (const group of report.verdicts) {
    if (!SET_ASIDE.some((kind) => kind === group.verdict)) continue;
    for (const row of indicesOf(group.ranges)) setAside.push({ row, verdict: { kind: group.verdict, reason: group.reason } as Verdict });
  }
  const adopt = report.plan.steps.filter((step) => step.what === 'adopt').flatMap((step) => step.ranges);
  return { extract: report.plan.extract.ranges, setAside, adopt };
}

export function isNothing(work: Work): boolean {
  return countOf(work.extract) + work.setAside.length + countOf(work.adopt) === 0;
}

function rangesText(ranges: readonly IndexRange[] | undefined): string {
  return ranges === undefined || ranges.length === 0 ? '' : `: rows ${formatRanges(ranges)}`;
}
