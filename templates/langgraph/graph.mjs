// A graph of one node, which sends the conversation to a model behind an endpoint that implements OpenAI's chat completions.
import { AIMessage, SystemMessage } from '@langchain/core/messages';
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';
import { ChatOpenAI } from '@langchain/openai';

const { OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL, SYSTEM_PROMPT } = process.env;
const isSetUp = Boolean(OPENAI_API_KEY || OPENAI_BASE_URL);

const explanation =
  'I am not connected to a model yet. Set the variable OPENAI_API_KEY (as a secret), or OPENAI_BASE_URL for an endpoint of your own ' +
  'that speaks OpenAI’s chat completions, perhaps also OPENAI_MODEL and SYSTEM_PROMPT, and restart me.';

async function speak({ messages }, config) {
  if (!isSetUp) return { messages: [new AIMessage(explanation)] };
  const model = new ChatOpenAI({
    model: OPENAI_MODEL || 'gpt-4o-mini',
    apiKey: OPENAI_API_KEY || 'none',
    maxRetries: 2,
    streamUsage: false,
    ...(OPENAI_BASE_URL ? { configuration: { baseURL: OPENAI_BASE_URL } } : {}),
  });
  const instructions = SYSTEM_PROMPT ? [new SystemMessage(SYSTEM_PROMPT)] : [];
  return { messages: [await model.invoke([...instructions, ...messages], config)] };
}

export const graph = new StateGraph(MessagesAnnotation).addNode('speak', speak).addEdge(START, 'speak').addEdge('speak', END).compile();
