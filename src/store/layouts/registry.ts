import type { Family } from '../family.ts';
import { angelSlim } from './angelslim.ts';
import { eagle } from './eagle.ts';
import { modelOpt } from './modelopt.ts';
import { specForge, specForgeDflash, specForgeDspark } from './specforge.ts';
import { speculators, speculatorsV0, speculatorsV1, vllmConnector } from './speculators.ts';

/** Every layout that is told by looking. A tree of which no file can be read is taken for the first whose names fit. */
export const FAMILIES: readonly Family[] = [
  specForge,
  specForgeDflash,
  specForgeDspark,
  angelSlim,
  speculators,
  speculatorsV0,
  speculatorsV1,
  modelOpt,
  eagle,
  vllmConnector,
];
