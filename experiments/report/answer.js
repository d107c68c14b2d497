// Sliders fix some inputs; the emulator is averaged over samples of all others.
const emulator = JSON.parse(document.getElementById("emulator").textContent || "null");
const SECONDS_PER_DAY = 86400;

// The kernel is that of experiments/analysis/emulator.py: a linear trend and a Matern term, beyond a floor.
function timeAt(process, score) {
  let sum = process.mean;
  for (const [place, point] of emulator.points.entries()) {
    let square = 0;
    let product = 0;
    for (let input = 0; input < score.length; input += 1) {
      const apart = (score[input] - point[input]) / process.lengths[input];
      square += apart * apart;
      product += score[input] * point[input];
    }
    const root = Math.sqrt(5 * square);
    const smooth = process.amplitude * (1 + root + (root * root) / 3) * Math.exp(-root);
    sum += process.weights[place] * (process.offset + process.slope * product + smooth);
  }
  return process.floor + Math.exp(sum);
}

// Known values replace an input in every sample, as [input, normal score].
function judge(known) {
  const samples = emulator.samples.map((sample) => {
    const score = [...sample];
    for (const [input, value] of known) score[input] = value;
    return score;
  });
  const times = emulator.processes.map((process) =>
    samples.map((score) => timeAt(process, score)),
  );
  const least = samples.map((_, sample) => Math.min(...times.map((row) => row[sample])));
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const rows = times.map((row, place) => ({
    candidate: emulator.candidates[place],
    best: mean(row.map((time, sample) => (time === least[sample] ? 1 : 0))),
    time: mean(row),
    regret: mean(row.map((time, sample) => time - least[sample])),
  }));
  return rows.sort((one, other) => one.regret - other.regret);
}

function show(known) {
  const rows = judge(known);
  const days = (seconds) => (seconds / SECONDS_PER_DAY).toFixed(2);
  const percent = (share) => `${(100 * share).toFixed(0)} %`;
  const body = document.querySelector("#live tbody");
  body.replaceChildren();
  for (const [place, one] of rows.entries()) {
    const row = body.insertRow();
    if (place === 0) row.className = "best";
    for (const text of [one.candidate, percent(one.best), days(one.time), days(one.regret)]) {
      const cell = row.insertCell();
      cell.textContent = text;
      if (cell.cellIndex > 0) cell.className = "number";
    }
  }
  const [first] = rows;
  // Without a known value the simulated samples above give the answer.
  document.getElementById("live-answer").textContent = known.length === 0
    ? "With nothing more known, the answer above holds."
    : `With these values, take ${first.candidate}: ${percent(first.best)} likely to be the best.`;
}

function makeSliders() {
  const sliders = [...document.querySelectorAll(".slider")].map((box, number) => ({
    ...emulator.sliders[number],
    input: box.querySelector("input"),
    output: box.querySelector("output"),
    forget: box.querySelector("button"),
    isKnown: false,
  }));
  const update = () => {
    const known = sliders.filter((slider) => slider.isKnown);
    show(known.map(({ place, scores, input }) => [place, scores[Number(input.value)]]));
  };
  const set = (slider, isKnown) => {
    slider.isKnown = isKnown;
    slider.forget.disabled = !isKnown;
    const text = isKnown ? slider.texts[Number(slider.input.value)] : "unknown";
    slider.output.textContent = text;
    slider.input.setAttribute("aria-valuetext", text);
    update();
  };
  for (const slider of sliders) {
    slider.input.addEventListener("input", () => set(slider, true));
    slider.forget.addEventListener("click", () => {
      slider.input.value = slider.input.defaultValue;
      set(slider, false);
      slider.input.focus();
    });
  }
  update();
}

if (emulator !== null) makeSliders();
