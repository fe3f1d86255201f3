import { TidemarkError } from '../core/errors.ts';
import { clipRanges, formatRanges, type IndexRange, indicesOf } from '../core/ranges.ts';
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
  const planned = report.plan.steps.filter((step) => step.what === 'set-aside').flatMap((step) => step.ranges);
  const setAside = report.verdicts.flatMap((group) =>
    SET_ASIDE.some((kind) => kind === group.verdict)
      ? planned.flatMap(([from, to]) =>
          rowsOf(clipRanges(group.ranges, from, to), { kind: group.verdict, reason: group.reason } as Verdict),
        )
      : [],
  );
  const adopt = report.plan.steps.filter((step) => step.what === 'adopt').flatMap((step) => step.ranges);
  return { extract: report.plan.extract.ranges, setAside, adopt };
}

function rowsOf(ranges: readonly IndexRange[], verdict: Verdict): { row: number; verdict: Verdict }[] {
  return [...indicesOf(ranges)].map((row) => ({ row, verdict }));
}

function rangesText(ranges: readonly IndexRange[] | undefined): string {
  return ranges === undefined || ranges.length === 0 ? '' : `: rows ${formatRanges(ranges)}`;
}
