import { createHost } from '../../src/app/host.ts';
import { run } from '../../src/cli/run.ts';
import { processTerminal } from '../../src/cli/terminal.ts';
import { gatedHost } from '../support/gated-host.ts';

// The command as it is shipped, on a machine that can die in the middle of any act (see gated-host.ts).
process.exitCode = await run(process.argv.slice(2), gatedHost(createHost(), process.env), processTerminal());
