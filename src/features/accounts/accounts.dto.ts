import { IsBoolean, IsIn, IsInt, IsOptional, IsString, Matches, Max, Min } from 'class-validator';

import { Length, MaxLength } from '../../http/requests/validation.ts';
import type { AccountRow } from './accounts.table.ts';

const EMAIL = /^[^\s@\p{C}]{1,64}@[^\s@\p{C}]{1,255}$/u;

export class RegisterDto {
  @Matches(EMAIL, { message: 'email must be an e-mail address' })
  email: string;

  @IsString()
  @Length(12, 1_024)
  password: string;

  @IsString()
  @Length(1, 100)
  name: string;
}

export class CreateAccountDto extends RegisterDto {
  /** The role of the account; the default is `member`. */
  @IsOptional()
  @IsIn(['admin', 'member'])
  role?: 'admin' | 'member';
}

export class LoginDto {
  @IsString()
  @MaxLength(320)
  email: string;

  @IsString()
  @MaxLength(1_024)
  password: string;
}

export class SessionDto {
  /** The token `ms_…`, to be sent as `Authorization: Bearer`. */
  session_token: string;
  /** The time at which the session ends, ISO 8601 UTC. A week without use ends it sooner. */
  expires_at: string;
}

export class AssignPlanDto {
  /** The plan's name. */
  @IsString()
  @Length(1, 100)
  plan: string;

  @IsInt()
  @Min(0)
  @Max(100_000)
  seats: number;

  @IsBoolean()
  payment_method: boolean;

  /** The number of computers that the account may have; the default is 20. */
  @IsOptional()
  @IsInt()
  @Min(0)
  @Max(100_000)
  computers?: number;
}

export class PlanDto {
  name: string;
  seats: number;
  seats_used: number;
  computers: number;
  computers_used: number;
}

export class AccountDto {
  account_id: string;
  email: string;
  name: string;
  role: 'admin' | 'member';
  /** The plan of the account; null if it has none. */
  plan: PlanDto | null;
  payment_method: boolean;
  /** The time at which the account was opened, ISO 8601 UTC. */
  created_at: string;
}

export function toAccountDto(row: AccountRow): AccountDto {
  const { plan_name: name, plan_seats: seats, plan_computers: computers, seats_used, computers_used } = row;
  return {
    account_id: row.account_id,
    email: row.credential?.email ?? '',
    name: row.name,
    role: row.role,
    plan: name === null || seats === null || computers === null ? null : { name, seats, seats_used, computers, computers_used },
    payment_method: row.payment_method,
    created_at: row.created_at.toISOString(),
  };
}
