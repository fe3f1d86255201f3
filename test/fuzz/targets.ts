import { parquetTarget, zstdTarget } from './dataset-targets.ts';
import { gzipTarget } from './gzip-target.ts';
import { inspectTarget } from './inspect-target.ts';
import { ledgerTargets } from './ledger-target.ts';
import { rowIndexTarget } from './row-index-target.ts';
import { safetensorsTarget } from './safetensors-target.ts';
import { loadSeeds } from './seeds.ts';
import type { FuzzTarget } from './target.ts';
import { checkedLinesTarget, configTarget, jsonlTarget, modelConfigTarget, rowTableTarget } from './text-targets.ts';
import { picklesOf, pickleTarget, torchZipTarget } from './torch-targets.ts';

export async function loadTargets(): Promise<readonly FuzzTarget[]> {
  const seeds = await loadSeeds();
  const pickles = await picklesOf(seeds.torch);
  const files = [torchZipTarget(seeds.torch, pickles), gzipTarget(seeds.torch), safetensorsTarget(seeds.safetensors)];
  return [
    ...files,
    inspectTarget(seeds, files),
    pickleTarget(pickles),
    checkedLinesTarget(),
    rowTableTarget(),
    jsonlTarget(),
    configTarget(),
    modelConfigTarget(),
    ...(await ledgerTargets()),
    await rowIndexTarget(),
    parquetTarget(),
    zstdTarget(),
  ];
}
