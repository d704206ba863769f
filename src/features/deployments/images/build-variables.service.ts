import { Injectable } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';

import type { BuildSettings } from '../../../runtime/project-plan.ts';
import { ListVariables } from '../../environment/index.ts';
import { Variables } from '../../environment/services.ts';

/** The names of variables for a build; null means all that are not secret. */
export interface NamedVariables {
  names: readonly string[] | null;
  /** Tells that secrets may be among them. */
  allowsSecrets: boolean;
}

/** Chooses the agent's variables that the build of its image gets. */
@Injectable()
export class BuildVariables {
  constructor(
    private readonly queries: QueryBus,
    private readonly variables: Variables,
  ) {}

  /**
   * Returns the agent's variables with these names, secret ones apart; without names all that are not secret. Logs the names of variables that the agent
   * does not have. Throws `RuntimeRefused` if a secret of the account is gone.
   */
  async of(
    { accountId, agentId }: { accountId: string; agentId: string },
    { names, allowsSecrets }: NamedVariables,
    log: (line: string) => void,
  ): Promise<Required<Pick<BuildSettings, 'agent' | 'secrets'>>> {
    const known = await this.queries.execute(new ListVariables(accountId, agentId));
    const named = known.filter(({ key, isSecret }) => names?.includes(key) ?? !isSecret);
    const wanted = named.filter(({ isSecret }) => allowsSecrets || !isSecret);
    const withheld = named.filter((each) => !wanted.includes(each)).map(({ key }) => key);
    if (withheld.length > 0)
      log(
        `The build gets no secret that mooring.json alone names, since builds reach more of the network than the agent may: ${withheld.join(', ')}. Name it in the agent's own build_variables.`,
      );
    const missing = (names ?? []).filter((name) => known.every(({ key }) => key !== name));
    if (missing.length > 0) log(`The build gets no variable of these names, since the agent has none: ${missing.join(', ')}`);
    const agent = wanted.flatMap(({ key, isSecret, value }) => (isSecret || value === null ? [] : [[key, value]]));
    const secrets = wanted.filter(({ isSecret }) => isSecret).map(({ key }) => key);
    const values = secrets.length === 0 ? {} : await this.variables.of(agentId);
    return { agent: Object.fromEntries(agent), secrets: Object.fromEntries(secrets.map((key) => [key, values[key] ?? ''])) };
  }
}
