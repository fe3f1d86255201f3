import { resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import type { Settings } from '../core/settings.ts';
import { readTargetModel } from '../engine/model-files.ts';
import type { Host } from '../host/host.ts';
import { openLedger } from '../ledger/open.ts';
import { type ConfigOverrides, loadConfig, overlaySettings, resolveLayers } from './config.ts';
import { parseSettings } from './config-settings.ts';

/** Settings of a new start: the configuration file under the flags, layers resolved by the target's own depth. */
export async function settingsForExtract(host: Host, config: string | null, overrides: ConfigOverrides, cwd: string): Promise<Settings> {
  const unresolved = await loadConfig(host.files, config, overrides, cwd);
  const model = await readTargetModel(host.files, unresolved.target.model);
  return resolveLayers(unresolved, model.layerCount);
}

/** Settings of a run that exists: those of its last start under the flags; `output` is the folder as it lies now. */
export async function settingsForResume(host: Host, folder: string, overrides: ConfigOverrides, cwd: string): Promise<Settings> {
  const output = resolve(cwd, folder);
  const ledger = await openLedger(host, output, { parseSettings });
  if (ledger === null) {
    throw new TidemarkError('no-run', `${output} is no run of tidemark: it has no .tidemark/run.json`, {
      where: output,
      hint: `tidemark assess ${output} --dataset FILE`,
    });
  }
  if (ledger.settings === null) {
    throw new TidemarkError('format-refused', `what this run was last started with cannot be used: ${ledger.settingsProblem}`, {
      where: output,
      hint:
        ledger.run.identity.layout.tree === undefined
          ? 'tidemark extract with the configuration of the run and this --output goes on with it, and writes the settings anew'
          : `tidemark adopt ${output} --yes, with the configuration or flags that it was adopted with, writes the settings anew`,
    });
  }
  return { ...overlaySettings(ledger.settings, overrides, cwd), output };
}
