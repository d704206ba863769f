import { Query } from '@nestjs/cqrs';

export interface UnusedSeat {
  sandboxId: string;
  accountId: string;
  takenAt: Date;
}

/** Lists the seats whose agent or computer does not exist yet, or not any more. */
export class ListUnusedSeats extends Query<UnusedSeat[]> {}
