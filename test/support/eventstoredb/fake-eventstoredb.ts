import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import gossip from '@eventstore/db-client/generated/gossip_pb.js';
import { GossipService } from '@eventstore/db-client/generated/gossip_grpc_pb.js';
import features from '@eventstore/db-client/generated/serverfeatures_pb.js';
import { ServerFeaturesService } from '@eventstore/db-client/generated/serverfeatures_grpc_pb.js';
import shared from '@eventstore/db-client/generated/shared_pb.js';
import streams from '@eventstore/db-client/generated/streams_pb.js';
import { StreamsService } from '@eventstore/db-client/generated/streams_grpc_pb.js';
import { Server, ServerCredentials, status, type sendUnaryData, type ServerReadableStream, type ServiceError } from '@grpc/grpc-js';
import { TcpProxy } from '../tcp-proxy.ts';
import { MemoryLog, type AppendAnswer, type Expected, type Proposed } from './memory-log.ts';
import { found, sendAll, FakeSubscription, type ReadCall } from './fake-eventstoredb-reads.ts';
import { appendResponse, commitTimeout, expectedOf, failure, notLeader, proposedOf, streamName, tooSlow, unavailable } from './wire.ts';

type AppendRequest = InstanceType<typeof streams.AppendReq>;
type AppendResponse = InstanceType<typeof streams.AppendResp>;

/** The outcome of an append; `…_stored` stores it first. */
export type AppendFault =
  | 'ok'
  | 'silent'
  | 'silent_stored'
  | 'fails'
  | 'fails_stored'
  | 'deadline_stored'
  | 'times_out_stored'
  | 'times_out_late'
  | 'not_ready';
export type ReadFault = 'ok' | 'silent' | 'fails' | 'denied' | 'twice' | 'slow';

const states = gossip.MemberInfo.VNodeState;
const backwards = streams.ReadReq.Options.ReadDirection.BACKWARDS;
/** The longest observed time after which a server responds to a repeated append that is in flight, with a margin, in ms. */
const LATE_MS = 3_200;

/**
 * A stand-in for an EventStoreDB of the v1 protocol, on the client's own stubs: it answers as a 23.10 was observed to answer, and fails on
 * demand. It supports only plain Append; a client that uses batches is refused.
 */
export class FakeEventStoreDb {
  /** Returns the outcome of each append to the stream. */
  onAppend: (stream: string) => AppendFault = () => 'ok';
  /** Returns the outcome of each read: a search for the end of a stream or of the log reads backwards, all other reads go forwards. */
  onRead: (direction: 'forwards' | 'backwards') => ReadFault = () => 'ok';
  /** The number of reads and subscriptions that any node could have answered, even one that is behind. */
  forAnyNode = 0;
  /** The number of times that a client requested the nodes of the cluster, as it does before it connects. */
  searches = 0;
  /** The leader: while it is set, this node is a follower that knows its leader, or believes that it does. */
  leader: FakeEventStoreDb | null = null;
  /**
   * The last position that this node knows: while it is set, the node is a leader that was frozen and deposed, and it refuses appends by
   * what it knows.
   */
  deposedAt: bigint | null = null;
  /** The other nodes of the cluster. */
  others: FakeEventStoreDb[] = [];
  /** The behaviour of new subscriptions: normal, silent, or with every event twice. */
  subscriptions: 'ok' | 'silent' | 'twice' = 'ok';
  private readonly live = new Set<FakeSubscription>();
  private server: Server | null = null;

  private constructor(
    readonly log: MemoryLog,
    private readonly proxy: TcpProxy,
  ) {}

  /** Starts a stand-in on a free port; several may share one log. */
  static async start(log = new MemoryLog()): Promise<FakeEventStoreDb> {
    const standIn = new FakeEventStoreDb(log, await TcpProxy.start());
    await standIn.listen();
    return standIn;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Returns the address, which stays the same over a restart. */
  get url(): string {
    return `${this.proxy.through('esdb://127.0.0.1:1')}?tls=false`;
  }

  /** Breaks every connection, as a network failure does. */
  cut(): void {
    this.proxy.cut();
  }

  /** Ends the server as kill -9 does; the log remains. */
  async kill(): Promise<void> {
    this.proxy.target = null;
    this.proxy.cut();
    this.server?.forceShutdown();
    this.server = null;
    this.log.restarted();
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.listen();
  }

  async stop(): Promise<void> {
    await this.kill();
    await this.proxy.close();
  }

  dropSubscriptions(why: 'unavailable' | 'too slow' = 'unavailable'): void {
    for (const subscription of this.live) subscription.drop(why === 'too slow' ? tooSlow() : unavailable('Connection dropped'));
  }

  silenceSubscriptions(): void {
    for (const subscription of this.live) subscription.silent = true;
  }

  private async listen(): Promise<void> {
    const server = new Server({ 'grpc.max_receive_message_length': 17 * 1024 * 1024 });
    server.addService(StreamsService, {
      read: (call: ReadCall) => void this.read(call),
      append: (call: ServerReadableStream<AppendRequest, AppendResponse>, answer: sendUnaryData<AppendResponse>) =>
        this.append(call, answer),
    });
    server.addService(ServerFeaturesService, {
      getSupportedMethods: (_: unknown, answer: sendUnaryData<unknown>) => answer(null, supported()),
    });
    server.addService(GossipService, { read: (_: unknown, answer: sendUnaryData<unknown>) => answer(null, this.cluster()) });
    this.proxy.target = await new Promise<number>((resolve, reject) =>
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => (error ? reject(error) : resolve(port))),
    );
    this.server = server;
  }

  private append(call: ServerReadableStream<AppendRequest, AppendResponse>, answer: sendUnaryData<AppendResponse>): void {
    let stream = '';
    let expected: Expected = 'any';
    const events: Proposed[] = [];
    call.on('data', (request: AppendRequest) => {
      const options = request.getOptions();
      const proposed = request.getProposedMessage();
      if (options) {
        stream = streamName(options.getStreamIdentifier());
        expected = expectedOf(options);
      }
      if (proposed) events.push(proposedOf(proposed));
    });
    call.on('error', () => undefined);
    call.on('end', () => {
      try {
        const response = this.appended(stream, expected, events, call.metadata.get('requires-leader').length > 0);
        if (response === 'late') setTimeout(() => answer(commitTimeout()), LATE_MS).unref();
        else if (response !== 'silence') answer(null, response);
      } catch (error) {
        answer(error as ServiceError);
      }
    });
  }

  private appended(stream: string, expected: Expected, events: Proposed[], leaderOnly: boolean): AppendResponse | 'silence' | 'late' {
    if (this.leader !== null && leaderOnly) throw notLeader('127.0.0.1', this.leader.port);
    if (this.deposedAt !== null) return this.refused(stream, expected);
    const fault = this.onAppend(stream);
    if (fault === 'silent') return 'silence';
    if (fault === 'fails') throw unavailable('Connection dropped');
    if (fault === 'not_ready') throw unavailable();
    const answer: AppendAnswer = this.log.append(stream, expected, events);
    if (fault === 'silent_stored') return 'silence';
    if (fault === 'fails_stored') throw unavailable('Connection dropped');
    if (fault === 'deadline_stored') throw failure(status.DEADLINE_EXCEEDED, 'Deadline exceeded');
    if (fault === 'times_out_stored') throw commitTimeout();
    if (fault === 'times_out_late') return 'late';
    return appendResponse(stream, expected, answer);
  }

  /**
   * Returns the response of a deposed leader, which compares with the log that it knows. It never answers an append that would fit there,
   * because it can't commit it.
   */
  private refused(stream: string, expected: Expected): AppendResponse | 'silence' {
    const actual = this.log.last(stream, this.deposedAt ?? undefined);
    const revision = expected === 'no_stream' ? -1 : expected;
    return revision === actual ? 'silence' : appendResponse(stream, expected, { kind: 'wrong_version', actual });
  }

  private async read(call: ReadCall): Promise<void> {
    const options = call.request.getOptions();
    call.on('error', () => undefined);
    if (!options) return void call.end();
    const fault = this.onRead(options.getReadDirection() === backwards ? 'backwards' : 'forwards');
    try {
      const leaderOnly = call.metadata.get('requires-leader').length > 0;
      if (!leaderOnly) this.forAnyNode += 1;
      if (this.leader !== null && leaderOnly) throw notLeader('127.0.0.1', this.leader.port);
      if (options.hasSubscription()) return this.subscribe(call, options);
      if (fault === 'silent') return;
      if (fault === 'fails') throw unavailable('Connection dropped');
      if (fault === 'denied') throw failure(status.UNAUTHENTICATED, 'Access Denied');
      if (fault === 'slow') await sleep(200);
      const records = found(this.log, options, this.deposedAt ?? undefined);
      await sendAll(call, records, streamName(options.getStream()?.getStreamIdentifier()), fault === 'twice');
    } catch (error) {
      call.emit('error', error);
    }
  }

  private subscribe(call: ReadCall, options: InstanceType<typeof streams.ReadReq.Options>): void {
    const how = { silent: this.subscriptions === 'silent' || this.deposedAt !== null, twice: this.subscriptions === 'twice' };
    this.live.add(new FakeSubscription(call, this.log, options, how, (ended) => this.live.delete(ended)));
  }

  private cluster(): InstanceType<typeof gossip.ClusterInfo> {
    this.searches += 1;
    const info = new gossip.ClusterInfo();
    info.setMembersList([this as FakeEventStoreDb, ...this.others].map((node) => node.member(this)));
    return info;
  }

  /**
   * Describes this node as another one sees it: a dead node is known to be dead, and only a deposed leader itself still believes that it
   * leads.
   */
  private member(seenBy: FakeEventStoreDb): InstanceType<typeof gossip.MemberInfo> {
    const id = new shared.UUID();
    id.setString(randomUUID());
    const place = new gossip.EndPoint();
    place.setAddress('127.0.0.1');
    place.setPort(this.port);
    const member = new gossip.MemberInfo();
    member.setInstanceId(id);
    member.setTimeStamp('0');
    const leads = this.leader === null && (this.deposedAt === null || seenBy === this);
    member.setState(leads ? states.LEADER : states.FOLLOWER);
    member.setIsAlive(this.server !== null);
    member.setHttpEndPoint(place);
    return member;
  }
}

function supported(): InstanceType<typeof features.SupportedMethods> {
  const methods = new features.SupportedMethods();
  methods.setEventStoreServerVersion('23.10.6');
  for (const name of ['read', 'append', 'batchappend', 'delete', 'tombstone']) {
    const method = new features.SupportedMethod();
    method.setServiceName('event_store.client.streams.streams');
    method.setMethodName(name);
    methods.addMethods(method);
  }
  return methods;
}
