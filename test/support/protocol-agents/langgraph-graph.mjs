import { AIMessage } from '@langchain/core/messages';
import { FakeListChatModel } from '@langchain/core/utils/testing';
import { END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph';

import { noteTurn, untilReleased } from './volume.mjs';

const behaviours = {
  /** Streams the words of a model, and then a reply of the graph's own. */
  stream: async ({ messages }) => {
    const model = new FakeListChatModel({ responses: ['the words of a model'], sleep: 5 });
    return { messages: [await model.invoke(messages)] };
  },
  ask: () => ({ messages: [new AIMessage(`you said ${interrupt('which one?')}`)] }),
  fail: () => {
    throw new Error('the node failed');
  },
  count: ({ messages }) => ({ messages: [new AIMessage(`${humans(messages).length}: ${humans(messages).join(', ')}`)] }),
  slow: async ({ messages }) => {
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    return { messages: [new AIMessage(`slow ${humans(messages).length}`)] };
  },
  wait: async (state) => {
    await untilReleased();
    return behaviours.count(state);
  },
  silent: () => ({ messages: [] }),
};

const humans = (messages) => messages.filter((message) => message.getType() === 'human').map(({ text }) => text);

/** The last message names the behaviour. */
function speak(state, config) {
  const { text: whole } = state.messages.at(-1);
  noteTurn(config.configurable.thread_id, whole);
  const [text] = whole.split(' ');
  return (behaviours[text] ?? behaviours.count)(state, config);
}

export const graph = new StateGraph(MessagesAnnotation).addNode('speak', speak).addEdge(START, 'speak').addEdge('speak', END).compile();
