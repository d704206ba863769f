import { Injectable } from '@nestjs/common';

import type { CommandContext } from '../../kernel/context/command-context.ts';
import { Keyring, type Sealed } from '../../crypto/keyring.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import type { ExecResult } from '../../runtime/runtime.ts';
import { execDecider, type ExecCommand } from './exec.decider.ts';
import type { ExecFailure, TerminalEnd } from './exec.events.ts';

/** A command has certainly ended this long after its deadline, in ms. */
const END_MARGIN_MS = 10_000;

interface RecordContext {
  context: CommandContext;
  agentId: string;
}

interface ExecRecord extends RecordContext {
  execId: string;
}

/** The texts of a caller that are kept of a command. */
interface ExecTexts {
  command: string | string[];
  cwd: string | null;
  session: string | null;
}

interface TerminalRecord extends RecordContext {
  terminalId: string;
}

/** Records the commands and terminals of agents. */
@Injectable()
export class AgentExecs {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
  ) {}

  /** Records a start. Throws `rate_limited` if too many commands run, and `invalid_state` if this one was started before. */
  async start(exec: ExecRecord & ExecTexts & { timeoutSeconds: number }): Promise<void> {
    const { agentId, execId, timeoutSeconds } = exec;
    const command = await this.keyring.seal(agentId, `exec ${execId} command`, JSON.stringify(exec.command));
    const location = await this.sealLocation(exec);
    const endsBy = new Date(Date.now() + timeoutSeconds * 1_000 + END_MARGIN_MS).toISOString();
    await this.execute(exec, { type: 'StartExec', agentId, execId, command, location, timeoutSeconds, endsBy });
  }

  end(exec: ExecRecord, { exitCode, timedOut, truncated }: ExecResult): Promise<void> {
    return this.execute(exec, { type: 'EndExec', execId: exec.execId, exitCode, timedOut, truncated });
  }

  fail(exec: ExecRecord, failure: ExecFailure): Promise<void> {
    return this.execute(exec, { type: 'FailExec', execId: exec.execId, failure });
  }

  issueTicket(ticket: RecordContext & { expiresAt: Date }): Promise<void> {
    const { agentId, expiresAt } = ticket;
    return this.execute(ticket, { type: 'IssueTerminalTicket', agentId, expiresAt: expiresAt.toISOString() });
  }

  openTerminal(terminal: TerminalRecord): Promise<void> {
    const { agentId, terminalId } = terminal;
    return this.execute(terminal, { type: 'OpenTerminal', agentId, terminalId });
  }

  closeTerminal(terminal: TerminalRecord, end: TerminalEnd, exitCode: number | null): Promise<void> {
    const { agentId, terminalId } = terminal;
    return this.execute(terminal, { type: 'CloseTerminal', agentId, terminalId, end, exitCode });
  }

  /** Returns the encrypted folder and session of the command; null if it has neither. */
  private async sealLocation({ agentId, execId, cwd, session }: ExecRecord & ExecTexts): Promise<Sealed | null> {
    if (cwd === null && session === null) return null;
    return this.keyring.seal(agentId, `exec ${execId} place`, JSON.stringify({ cwd, session }));
  }

  private async execute({ agentId, context }: RecordContext, command: ExecCommand): Promise<void> {
    await this.aggregates.execute(`exec-${agentId}`, execDecider, command, context);
  }
}
