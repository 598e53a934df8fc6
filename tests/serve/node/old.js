// Drives @azure/cognitiveservices-personalizer (v1.0): rank, reward, activate; prints what came back as JSON.
const { PersonalizerClient } = require("@azure/cognitiveservices-personalizer");
const { ApiKeyCredentials } = require("@azure/ms-rest-js");

const [url, key] = process.argv.slice(2);
const actions = [
  { id: "pasta", features: [{ taste: "salty" }] },
  { id: "ice cream", features: [{ taste: "sweet" }] },
];

async function refused(call) {
  try {
    await call();
    return null;
  } catch (error) {
    return { status: error.statusCode, body: error.body };
  }
}

async function main() {
  const credentials = new ApiKeyCredentials({ inHeader: { "Ocp-Apim-Subscription-Key": key } });
  const client = new PersonalizerClient(credentials, url, {});
  const request = { contextFeatures: [{ t: "morning" }], actions, eventId: "old node/ä", deferActivation: true };
  const first = await client.rank({ ...request, excludedActions: ["juice"] });
  const again = await client.rank(request);
  const reward = await client.events.reward("old node/ä", { value: 1 });
  const activate = await client.events.activate("old node/ä");
  const plain = await client.rank({ actions });
  await client.events.reward(plain.eventId, { value: 0 });
  console.log(
    JSON.stringify({
      first,
      again,
      plain,
      statuses: [first._response.status, reward._response.status, activate._response.status],
      empty: await refused(() => client.rank({ actions: [] })),
      bad: await refused(() => client.events.reward(plain.eventId, { value: 3 })),
    })
  );
}

main();
