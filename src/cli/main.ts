#!/usr/bin/env node
import { createHost } from '../app/host.ts';
import { run } from './run.ts';
import { processTerminal } from './terminal.ts';

process.exitCode = await run(process.argv.slice(2), createHost(), processTerminal());
