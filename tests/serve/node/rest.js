// Drives @azure-rest/ai-personalizer (v1.1-preview.3): everything it has; prints statuses and bodies as JSON.
const createClient = require("@azure-rest/ai-personalizer").default;
const { AzureKeyCredential } = require("@azure/core-auth");

const [url, key] = process.argv.slice(2);
const actions = [
  { id: "pasta", features: [{ taste: "salty" }] },
  { id: "ice cream", features: [{ taste: "sweet" }] },
];

async function main() {
  const client = createClient(url, new AzureKeyCredential(key), { allowInsecureConnection: true });
  const out = {};
  const note = async (name, call) => {
    const answer = await call;
    out[name] = { status: Number(answer.status), body: answer.body, location: answer.headers.location };
    return answer;
  };
  const event = "rest/ä 1";
  const rank = { actions, contextFeatures: [{ t: "morning" }], eventId: event, deferActivation: true };
  await note("rank", client.path("/rank").post({ body: rank }));
  await note("again", client.path("/rank").post({ body: rank }));
  await note("reward", client.path("/events/{eventId}/reward", event).post({ body: { value: 1 } }));
  await note("activate", client.path("/events/{eventId}/activate", event).post());
  await note("bad", client.path("/events/{eventId}/reward", event).post({ body: { value: 3 } }));
  await note("missing", client.path("/events/{eventId}/reward", "never").post({ body: { value: 1 } }));
  const slots = [{ id: "s1", baselineAction: "pasta" }, { id: "s2", baselineAction: "ice cream" }];
  await note("slots", client.path("/multislot/rank").post({ body: { actions, slots, eventId: "m1" } }));
  const earned = { reward: [{ slotId: "s1", value: 1 }, { slotId: "s2", value: 0 }] };
  await note("slot reward", client.path("/multislot/events/{eventId}/reward", "m1").post({ body: earned }));
  await note("slot activate", client.path("/multislot/events/{eventId}/activate", "m1").post());
  const config = await note("service", client.path("/configurations/service").get());
  const changed = { ...config.body, rewardWaitTime: "PT15M", rewardAggregation: "earliest" };
  await note("put service", client.path("/configurations/service").put({ body: changed }));
  const both = { ...changed, learningMode: "Apprentice", defaultReward: 0.5 };
  await note("both", client.path("/configurations/service").put({ body: both }));
  await note("policy", client.path("/configurations/policy").get());
  const policy = { name: "mine", arguments: "--cb_explore_adf" };
  await note("put policy", client.path("/configurations/policy").put({ body: policy }));
  await note("delete policy", client.path("/configurations/policy").delete());
  for (let i = 0; i < 6; i++) {
    const made = await client.path("/rank").post({ body: { actions } });
    await client.path("/events/{eventId}/reward", made.body.eventId).post({ body: { value: i % 2 } });
  }
  const contract = { name: "e", startTime: "2020-01-01T00:00:00Z", endTime: "2100-01-01T00:00:00Z", policies: [] };
  const made = await note("evaluate", client.path("/evaluations").post({ body: contract }));
  let found;
  do {
    found = await note("evaluation", client.path("/evaluations/{evaluationId}", made.body.id).get());
  } while (found.body.status === "Running");
  await note("evaluations", client.path("/evaluations").get());
  const applied = { evaluationId: made.body.id, policyName: "lim2" };
  await note("apply", client.path("/configurations/applyFromEvaluation").post({ body: applied }));
  await note("delete evaluation", client.path("/evaluations/{evaluationId}", made.body.id).delete());
  await note("logs", client.path("/logs/properties").get());
  await note("model properties", client.path("/model/properties").get());
  const model = await client.path("/model").get();
  out.model = { status: Number(model.status) };
  await note("delete model", client.path("/model").delete());
  await note("delete logs", client.path("/logs").delete());
  const binary = { contentType: "application/octet-stream", body: Buffer.from([0, 1, 2]) };
  await note("interactions", client.path("/logs/interactions").post(binary));
  await note("observations", client.path("/logs/observations").post(binary));
  console.log(JSON.stringify(out));
}

main();
