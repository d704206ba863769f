"""Calls an agent by the client of openai, and prints what it got as JSON: openai_client.py <the agent's public address>."""

import json
import sys
import urllib.request

from openai import OpenAI

url = sys.argv[1]
client = OpenAI(base_url=f"{url}v1", api_key="none", max_retries=0)
hello = {"model": "parrot", "messages": [{"role": "user", "content": "hello"}]}

found = {"models": [model.id for model in client.models.list()], "streamed": []}
found["completion"] = client.chat.completions.create(**hello).choices[0].message.content
for chunk in client.chat.completions.create(**hello, stream=True):
    piece = chunk.choices[0].delta.content
    if piece is None:
        continue
    found["streamed"].append(piece)
    if len(found["streamed"]) == 1:
        urllib.request.urlopen(f"{url}next").close()
print(json.dumps(found))
