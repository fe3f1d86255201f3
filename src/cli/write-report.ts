import { resolve } from 'node:path';
import { writePage } from '../app/page-file.ts';
import type { Report } from '../core/report.ts';
import { PAGE_MARKER, renderReportPage } from '../web/report-page.ts';
import type { CommandContext } from './context.ts';
import { renderReport } from './render-report.ts';
import { writeAll } from './terminal.ts';

export interface ReportOutput {
  readonly json: boolean;
  /** Absolute, or null. */
  readonly html: string | null;
}

export function reportOutput(options: { readonly json: boolean; readonly html?: string | undefined }, cwd: string): ReportOutput {
  return { json: options.json, html: options.html === undefined ? null : resolve(cwd, options.html) };
}

/** One report object, three faces. With `--json` the document is all that stdout gets. */
export async function writeReport(context: CommandContext, report: Report, output: ReportOutput): Promise<void> {
  const { terminal } = context;
  if (output.html !== null)
    await writePage(context.host, output.html, renderReportPage(report), { folder: report.folder, marker: PAGE_MARKER });
  await writeAll(terminal.out, output.json ? `${JSON.stringify(report, null, 2)}\n` : renderReport(report, terminal.colors));
  if (output.html !== null) await writeAll(output.json ? terminal.err : terminal.out, `page: ${output.html}\n`);
}
