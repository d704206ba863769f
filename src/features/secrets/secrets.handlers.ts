import { CommandHandler, type ICommandHandler, QueryBus } from '@nestjs/cqrs';

import { Keyring } from '../../crypto/keyring.ts';
import { invalidField } from '../../kernel/errors/problem-error.ts';
import { Aggregates } from '../../eventsourcing/aggregates/aggregates.ts';
import { secretContext } from './account-secrets.service.ts';
import { maskOf, secretNameProblem, valueProblem } from './secret-values.rules.ts';
import { RemoveSecret, StoreSecret, type StoredSecret } from './secrets.commands.ts';
import { secretsDecider, secretsStream } from './secrets.decider.ts';
import { FindSecretUsers } from './secrets.queries.ts';

@CommandHandler(StoreSecret)
export class StoreSecretHandler implements ICommandHandler<StoreSecret> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly keyring: Keyring,
  ) {}

  async execute({ context, accountId, name, value }: StoreSecret): Promise<StoredSecret> {
    refuseProblem('name', secretNameProblem(name));
    refuseProblem('value', valueProblem(value));
    const sealed = await this.keyring.seal(accountId, secretContext(name), value);
    const command = { type: 'StoreSecret' as const, accountId, name, sealed, mask: maskOf(value) };
    const { before, state } = await this.aggregates.execute(secretsStream(accountId), secretsDecider, command, context);
    const secret = state.get(name);
    if (secret === undefined) throw new Error(`the secret ${name} is not there after it was stored`);
    return { secret: { name, ...secret }, isNew: !before.has(name) };
  }
}

function refuseProblem(field: string, problem: string | null): void {
  if (problem !== null) throw invalidField(field, problem);
}

/**
 * Checks who uses the secret, and then removes it. If a variable starts to use it in between, the agent's next boot fails with the name of
 * the missing secret.
 */
@CommandHandler(RemoveSecret)
export class RemoveSecretHandler implements ICommandHandler<RemoveSecret> {
  constructor(
    private readonly aggregates: Aggregates,
    private readonly queries: QueryBus,
  ) {}

  async execute({ context, accountId, name }: RemoveSecret): Promise<void> {
    const users = await this.queries.execute(new FindSecretUsers(accountId, name));
    await this.aggregates.execute(secretsStream(accountId), secretsDecider, { type: 'RemoveSecret', accountId, name, users }, context);
  }
}
