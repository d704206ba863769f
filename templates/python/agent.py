import json
import os
import threading

ANSWERS_MAX = 200
FILE = os.path.join(os.environ.get("MOORING_VOLUME", "."), "answers.json")
one_at_a_time = threading.Lock()


def reply(message):
    """Answers a message: id, channel, conversation_id, text. A message that comes again, because its response was lost, has the same id and
    gets the same answer. What the agent remembers is on its volume, so that it survives each stop and each deployment."""
    with one_at_a_time:
        answers = remembered()
        for answer in answers:
            if answer["id"] == message["id"]:
                return answer["response"]
        conversation = message.get("conversation_id")
        count = sum(answer["conversation"] == conversation for answer in answers) + 1
        text = str(message.get("text") or "")[:500]
        response = f"You wrote: {text}. It was message {count} of this conversation."
        remember([*answers, {"id": message["id"], "conversation": conversation, "response": response}][-ANSWERS_MAX:])
        return response


def remembered():
    try:
        with open(FILE, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return []


def remember(answers):
    """Writes the file so that a crash leaves the old one or the new one, never a part."""
    with open(FILE + ".new", "w", encoding="utf-8") as file:
        json.dump(answers, file)
    os.replace(FILE + ".new", FILE)
