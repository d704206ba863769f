import { IsString } from 'class-validator';

import type { NamedSecret } from './secrets.decider.ts';

export class StoreSecretDto {
  /** The value of the secret, at most 32 KB. No response contains it. */
  @IsString()
  value: string;
}

export class SecretDto {
  name: string;
  /** The value, masked: at most its first 4 characters. */
  hint: string;
  created_at: string;
  /** The time at which the present value was stored. */
  updated_at: string;
}

export class UsedSecretDto extends SecretDto {
  /** The number of agents that have a variable which takes its value from the secret. */
  used_by: number;
}

export function toSecretDto({ name, mask: hint, createdAt: created_at, updatedAt: updated_at }: NamedSecret): SecretDto {
  return { name, hint, created_at, updated_at };
}
