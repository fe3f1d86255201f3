import { isAdoptable } from './adoptable.ts';
import type { Report } from './report.ts';

/** The one command to type now: text and page end in the same. */
export function nextCommand(report: Report): readonly string[] {
  const { told } = report;
  if (report.running !== null) return ['tidemark', 'assess', report.folder, ...told];
  const blocker = report.findings.find((finding) => report.plan.blockers.includes(finding.code));
  const choice = blocker?.remedy?.commands[0];
  if (choice !== undefined) return choice;
  if (report.suspect.length > 0 && report.findings.some((finding) => finding.code === 'TM-H02')) {
    return ['tidemark', 'verify', report.folder, '--level', 'checksum', ...told];
  }
  if (report.run === null && report.dataset !== null && report.totals.sound > 0 && isAdoptable(report.layout)) {
    return ['tidemark', 'adopt', report.folder, ...told];
  }
  const left = report.plan.extract.count + report.plan.steps.filter((step) => step.what === 'adopt' || step.what === 'set-aside').length;
  if (report.run !== null && left > 0) return ['tidemark', 'resume', report.folder];
  if (report.run !== null && report.missing.failed > 0) return ['tidemark', 'resume', report.folder, '--retry-failed'];
  const unreadable = report.findings.find((finding) => finding.code === 'TM-S05')?.remedy?.commands[0];
  if (unreadable !== undefined) return unreadable;
  // Everything that there is was read to this level; the next thing to gain is a deeper one, then a page to keep.
  if (report.level === 'content') return ['tidemark', 'assess', report.folder, ...told, '--html', 'tidemark-report.html'];
  return ['tidemark', 'verify', report.folder, '--level', report.level === 'checksum' ? 'content' : 'checksum', ...told];
}
