import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import type { StartedService } from './started-service.ts';
import type { VendorModels } from './vendor-models.ts';

interface Place {
  x: number;
  y: number;
}

/** A step of an operator of a computer, independent of any vendor's API. */
export type Step =
  | { press: readonly string[] }
  | { type: string }
  | { click: Place }
  | { move: Place }
  | { wait: number }
  /** Takes a picture. */
  | { look: true };

/** An operator of a computer, with its own vocabulary for the steps. */
export interface Operator {
  /** Performs the steps in order. Returns the screenshots of steps that look. */
  run(computerId: string, steps: readonly Step[]): Promise<Buffer[]>;
}

interface ActionsAnswer {
  ok: boolean;
  results: { screenshot?: { data: string } }[];
}

async function posted(service: StartedService, computerId: string, body: unknown): Promise<Buffer[]> {
  const { status, body: answer } = await service.call<ActionsAnswer>('POST', `/api/v1/computers/${computerId}/actions`, body);
  if (status !== 200 || !answer.ok) throw new Error(`${status}: ${JSON.stringify(answer)}`);
  return answer.results.flatMap(({ screenshot }) => (screenshot === undefined ? [] : [Buffer.from(screenshot.data, 'base64')]));
}

/** Returns the step in the vocabulary of Anthropic's computer tool. */
function toAnthropic(step: Step): { action: string } & Record<string, unknown> {
  if ('press' in step) return { action: 'key', text: step.press.join('+') };
  if ('type' in step) return { action: 'type', text: step.type };
  if ('click' in step) return { action: 'left_click', coordinate: [step.click.x, step.click.y] };
  if ('move' in step) return { action: 'mouse_move', coordinate: [step.move.x, step.move.y] };
  return 'wait' in step ? { action: 'wait', duration: step.wait } : { action: 'screenshot' };
}

/** Returns the step in the vocabulary of OpenAI's computer tool, whose model can't say how long it waits. */
function toOpenai(step: Step): object {
  if ('press' in step) return { type: 'keypress', keys: step.press.map((key) => key.toUpperCase()) };
  if ('type' in step) return { type: 'type', text: step.type };
  if ('click' in step) return { type: 'click', button: 'left', ...step.click, keys: null };
  if ('move' in step) return { type: 'move', ...step.move, keys: null };
  return 'wait' in step ? { type: 'wait' } : { type: 'screenshot' };
}

/** A program that sends batches to the API. */
export class ApiOperator implements Operator {
  constructor(private readonly service: StartedService) {}

  run(computerId: string, steps: readonly Step[]): Promise<Buffer[]> {
    return posted(this.service, computerId, { actions: steps.map(toAnthropic) });
  }
}

/** A program that posts each tool use of Anthropic's model as its SDK returns it: one by one, or those of the toolset as a batch. */
export class AnthropicOperator implements Operator {
  constructor(
    private readonly service: StartedService,
    private readonly models: VendorModels,
    private readonly usesToolset: boolean,
  ) {}

  async run(computerId: string, steps: readonly Step[]): Promise<Buffer[]> {
    if (this.usesToolset) {
      const named = steps.map(toAnthropic).map(({ action: name, ...input }) => ({ name, input }));
      return posted(this.service, computerId, { actions: await this.models.anthropicUses(named) });
    }
    const uses = await this.models.anthropicUses(steps.map((step) => ({ name: 'computer', input: toAnthropic(step) })));
    const pictures: Buffer[] = [];
    for (const use of uses) pictures.push(...(await posted(this.service, computerId, use)));
    return pictures;
  }
}

/** A program that posts the actions of OpenAI's model as its SDK returns them. */
export class OpenaiOperator implements Operator {
  constructor(
    private readonly service: StartedService,
    private readonly models: VendorModels,
  ) {}

  async run(computerId: string, steps: readonly Step[]): Promise<Buffer[]> {
    const { actions } = await this.models.openaiCall({ actions: steps.map(toOpenai) });
    return posted(this.service, computerId, { actions });
  }
}

export interface ToolContent {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
}

/** A model that has the service's tools, through the client of the protocol's own SDK. */
export class ToolOperator implements Operator {
  private constructor(private readonly client: Client) {}

  static async connect({ firstRun: { url, api_key: key } }: StartedService): Promise<ToolOperator> {
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { authorization: `Bearer ${key}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL('/api/mcp', url), { requestInit }));
    return new ToolOperator(client);
  }

  /** Calls the tool. Throws if it fails. */
  async call(name: string, given: Record<string, unknown>): Promise<ToolContent[]> {
    const { content, isError } = await this.client.callTool({ name, arguments: given });
    if (isError === true) throw new Error(JSON.stringify(content));
    return content as ToolContent[];
  }

  /** Calls the tool, and returns its first text. */
  async text(name: string, given: Record<string, unknown>): Promise<string> {
    return (await this.call(name, given))[0]?.text ?? '';
  }

  async run(computerId: string, steps: readonly Step[]): Promise<Buffer[]> {
    const pictures: Buffer[] = [];
    let actions: object[] = [];
    const act = async () => {
      if (actions.length > 0) await this.call('act_on_computer', { computerId, actions });
      actions = [];
    };
    for (const step of steps) {
      if (!('look' in step)) actions.push(toAnthropic(step));
      else {
        await act();
        const [picture] = await this.call('get_computer_screenshot', { computerId });
        pictures.push(Buffer.from(picture?.data ?? '', 'base64'));
      }
    }
    await act();
    return pictures;
  }

  close(): Promise<void> {
    return this.client.close();
  }
}
