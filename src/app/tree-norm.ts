import { isTidemarkError, TidemarkError } from '../core/errors.ts';
import type { StoredLastState } from '../core/settings.ts';
import { shellLine } from '../core/shell-line.ts';
import type { Host } from '../host/host.ts';
import { FAMILIES } from '../store/layouts/registry.ts';
import type { Layout } from '../store/store.ts';
import { runHeadCheck } from './head-check-folder.ts';
import type { TreeForm } from './tree-form.ts';

/** How the last states of a tree are stored, and how that is known. */
export interface LastStateSeen {
  readonly stored: StoredLastState;
  readonly source: string;
}

/** The same files are asked each time a tree is looked at. */
const SEED = 1;

/**
 * Before or behind the final norm: the target's own norm and head tell it from the numbers; where they cannot, the operator's word counts,
 * and last what the tool is known to leave.
 * @param given `--last-state`
 * @throws TidemarkError `decision-needed` when the states are not the target's, or nothing tells
 */
export async function lastStateOfTree(
  host: Host,
  root: string,
  layout: Layout,
  form: TreeForm,
  options: { readonly model: string; readonly given: 'pre-norm' | 'post-norm' | null; readonly cwd: string; readonly signal: AbortSignal },
): Promise<LastStateSeen> {
  if (!form.tensors.some(({ role }) => role === 'last' || role === 'all'))
    return { stored: 'none', source: 'the files keep no last state' };
  const { given, model } = options;
  const asked = await headVerdict(host, root, layout, options);
  const hint = `see how: ${shellLine(['tidemark', 'verify', root, '--head', model])}`;
  if (asked.kind === 'told') {
    if (given !== null && given !== asked.stored) {
      throw new TidemarkError(
        'decision-needed',
        `--last-state says ${given}, and the files are ${asked.stored} by the target's own head: ${asked.detail}`,
        {
          where: root,
          hint,
        },
      );
    }
    return { stored: asked.stored, source: `the target's own norm and head: ${asked.detail}` };
  }
  if (given !== null) return { stored: given, source: 'said with --last-state' };
  if (asked.kind === 'wrong') {
    throw new TidemarkError('decision-needed', `the last states of ${root} are not those of ${model}: ${asked.detail}`, {
      where: root,
      hint,
    });
  }
  const usual = FAMILIES.find(({ name }) => name === layout.name)?.lastState ?? null;
  if (usual !== null) return { stored: usual, source: `what ${layout.name} leaves; the numbers do not tell: ${asked.detail}` };
  throw new TidemarkError(
    'decision-needed',
    `nothing tells whether the last states of ${root} are before or behind the final norm: ${asked.detail}`,
    {
      where: root,
      hint: 'say which with --last-state pre-norm or --last-state post-norm',
    },
  );
}

type HeadVerdict =
  | { readonly kind: 'told'; readonly stored: 'pre-norm' | 'post-norm'; readonly detail: string }
  /** They are somebody else's states, or at the wrong places. */
  | { readonly kind: 'wrong' | 'unknown'; readonly detail: string };

async function headVerdict(
  host: Host,
  root: string,
  layout: Layout,
  options: { readonly model: string; readonly cwd: string; readonly signal: AbortSignal },
): Promise<HeadVerdict> {
  try {
    const report = await runHeadCheck(host, root, { ...options, dataset: null, layout, seed: SEED });
    const few = report.perFile.length === 0 ? '' : `; ${report.perFile.length} of ${report.files} files differ`;
    const detail = `${report.detail}${few}`;
    if (report.verdict === 'pre-norm' || report.verdict === 'post-norm') return { kind: 'told', stored: report.verdict, detail };
    return { kind: 'wrong', detail };
  } catch (error) {
    // Too few or too short files, or a model folder without its head: nothing is told, and nothing is wrong.
    if (!isTidemarkError(error, 'decision-needed', 'model')) throw error;
    return { kind: 'unknown', detail: error.message };
  }
}
