"""The simulated shop, whatever a person does to its bandit meanwhile."""

import asyncio
import logging

import pytest
from starlette.testclient import TestClient

from lim2.serve import demo
from lim2.serve.errors import ApiError
from lim2.serve.service import Service


def test_it_opens_again_when_its_settings_were_changed(client: TestClient, service: Service) -> None:
    demo.opened(service)
    changed = {"expire_after": 20, "default_reward": None, "aggregate": "sum", "keep_days": None, "epsilon": 0.3}
    assert client.patch(f"/v1/bandits/{demo.NAME}", json=changed).status_code == 200
    demo.opened(service)
    assert client.get(f"/v1/bandits/{demo.NAME}").json()["spec"]["expire_after"] == 20


def test_it_sends_nobody_to_a_bandit_that_is_not_its_own(client: TestClient, service: Service) -> None:
    assert client.put(f"/v1/bandits/{demo.NAME}", json={"arms": ["a", "b"]}).status_code == 201
    with pytest.raises(ApiError, match="with different settings"):
        demo.opened(service)


def test_it_closes_when_its_bandit_is_deleted(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(demo, "PAUSE", 0.001)

    async def visited() -> None:
        shop = asyncio.create_task(demo.shop(service))
        while demo.NAME not in service.bandits.opened or not service.bandits.opened[demo.NAME].log.state.pending:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(service.bandits.delete, demo.NAME)
        await asyncio.wait_for(shop, 30)

    with caplog.at_level(logging.WARNING, "lim2.serve"):
        asyncio.run(visited())
    service.bandits.close()
    assert [one.getMessage().partition(":")[0] for one in caplog.records] == ["the simulated shop has closed"]
