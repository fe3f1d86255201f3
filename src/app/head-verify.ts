import { resolve } from 'node:path';
import { EXIT, type ExitCode } from '../core/exit.ts';
import type { Host } from '../host/host.ts';
import { openLedger } from '../ledger/open.ts';
import { parseSettings } from './config-settings.ts';
import { type FolderHeadCheckReport, runHeadCheck } from './head-check-folder.ts';
import { headCheckLines } from './head-check-words.ts';
import { openRunLayout } from './run-layout.ts';

export interface HeadVerification {
  readonly report: FolderHeadCheckReport;
  readonly lines: readonly string[];
  /** 0 when the states are the target's in the norm that the run states (any, where nothing states it), and no file stands out. */
  readonly exit: ExitCode;
}

/** `verify --head`: the target's own norm and head over stored positions; no server. */
export async function verifyHead(
  host: Host,
  folder: string,
  options: { readonly model: string; readonly dataset: string | null; readonly cwd: string },
): Promise<HeadVerification> {
  const root = resolve(options.cwd, folder);
  const ledger = await openLedger(host, root, { parseSettings });
  const report = await runHeadCheck(host, folder, {
    ...options,
    ...(ledger === null ? {} : { layout: await openRunLayout(host.files, root, ledger.run.identity.layout) }),
  });
  const stated = ledger?.run.identity.lastState.stored ?? null;
  const right = stated === null ? report.verdict === 'post-norm' || report.verdict === 'pre-norm' : report.verdict === stated;
  return { report, lines: headCheckLines(report), exit: right && report.perFile.length === 0 ? EXIT.complete : EXIT.decision };
}
