"""`python -m benchmarks.bare`: an endpoint that decodes a rank request and encodes an answer to it, and nothing else.

On Starlette and uvicorn, with the types of the service; it prints its address as `lim2 serve` does.
"""

import socket

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lim2.serve.personalizer.wire import RankedAction, RankRequest, RankResponse

PATH = "/personalizer/v1.0/rank"
decoder, encoder = msgspec.json.Decoder(RankRequest), msgspec.json.Encoder()


async def rank(request: Request) -> Response:
    """Answer with the actions in the order in which they came, each as likely as the others."""
    asked = decoder.decode(await request.body())
    chance = 1 / len(asked.actions)
    ranking = [RankedAction(action.id, chance) for action in asked.actions]
    answer = RankResponse(ranking, asked.event_id or "019a8c2e5f7b" + 20 * "0", asked.actions[0].id)
    return Response(encoder.encode(answer), 201, media_type="application/json")


def main() -> None:
    with socket.socket() as own:
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.bind(("127.0.0.1", 0))
        print(f"bare http://127.0.0.1:{own.getsockname()[1]}", flush=True)
        app = Starlette(routes=[Route(PATH, rank, methods=["POST"])])
        settings = uvicorn.Config(app, access_log=False, log_level="warning", server_header=False, date_header=False)
        uvicorn.Server(settings).run(sockets=[own])


if __name__ == "__main__":
    main()
