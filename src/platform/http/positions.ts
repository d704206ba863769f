import { type CallHandler, type ExecutionContext, Injectable, type NestInterceptor, SetMetadata } from '@nestjs/common';
import { ModuleRef, Reflector } from '@nestjs/core';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Observable, tap } from 'rxjs';

import type { MooringRequest } from './access.ts';
import type { Position } from '../event-store/event-store.ts';
import { ReadModels } from '../projections/projection.ts';
import { Refusal } from '../refusal.ts';

const READS_MODEL = 'mooring:reads-model';

/** The route answers from these projections: it waits until they hold what the caller wrote, or asks for. */
export const ReadsModel = (...projections: string[]) => SetMetadata(READS_MODEL, projections);

/** Accounts whose last write is remembered. */
const REMEMBERED = 10_000;

/** Read your writes: tells a write's position, and holds a read back until the read model has come that far. */
@Injectable()
export class Positions implements NestInterceptor {
  private readonly lastWrites = new Map<string, Position>();

  constructor(
    private readonly reflector: Reflector,
    private readonly modules: ModuleRef,
  ) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const http = context.switchToHttp();
    const request = http.getRequest<FastifyRequest & MooringRequest>();
    const projections = this.reflector.get<string[] | undefined>(READS_MODEL, context.getHandler()) ?? [];
    const wanted = this.wantedBy(request);
    if (wanted !== null && projections.length > 0) {
      const readModels = this.modules.get(ReadModels, { strict: false });
      await Promise.all(projections.map((projection) => readModels.reached(projection, wanted)));
    }
    const noteWrite = () => this.noteWrite(request, http.getResponse<FastifyReply>());
    return next.handle().pipe(tap({ next: noteWrite, error: noteWrite }));
  }

  private wantedBy(request: FastifyRequest & MooringRequest): Position | null {
    const asked = request.headers['x-min-event-position'];
    if (asked !== undefined && !(typeof asked === 'string' && /^\d{20}$/.test(asked)))
      throw new Refusal('invalid_request', 'X-Min-Event-Position must be a position that X-Event-Position gave.', {
        errors: [{ field: 'X-Min-Event-Position', message: 'is not a position' }],
      });
    const own = request.caller ? this.lastWrites.get(request.caller.accountId) : undefined;
    if (asked === undefined) return own ?? null;
    return own !== undefined && own > asked ? own : asked;
  }

  private noteWrite(request: MooringRequest, reply: FastifyReply): void {
    const position = request.commandContext?.writtenUpTo;
    if (position === undefined) return;
    if (!reply.raw.headersSent) void reply.header('x-event-position', position);
    const account = request.caller?.accountId;
    if (account === undefined) return;
    const before = this.lastWrites.get(account);
    this.lastWrites.delete(account);
    this.lastWrites.set(account, before !== undefined && before > position ? before : position);
    const oldest = this.lastWrites.keys().next();
    if (this.lastWrites.size > REMEMBERED && oldest.done === false) this.lastWrites.delete(oldest.value);
  }
}
