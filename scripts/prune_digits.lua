-- SPDX-License-Identifier: MIT
-- What pruning costs and gains on digits:
--
--   ./ridge --threads 1 scripts/prune_digits.lua FOLDER [SEEDS]
--
-- FOLDER has the files of MNIST, or a part of them. 784-128-10, 8 epochs; shrunk to 64 units and
-- tuned for 4, beside units that were drawn and the small shape trained for 12; then weights and
-- blocks of 16 outputs in three steps of 2 epochs, beside random ones, and the time of what
-- ridge.prune.compact makes of it at one row. results/kept/prune.txt is what it printed.

local ridge = require 'ridge'
local nn, prune = ridge.nn, ridge.prune

local folder, seeds = arg[1], tonumber(arg[2] or 5)
if not folder then error 'usage: ./ridge scripts/prune_digits.lua FOLDER [SEEDS]' end
local sets = ridge.data.mnist(folder)

local function rows(set)
  return set.images:to('f32'):reshape(set.images:size(1), 784) / 255, set.labels:to 'i64'
end

local x, y = rows(sets.train)
local test_x, test_y = rows(sets.test)
local test = ridge.data.Loader({ test_x, test_y }, { batch = 500, shuffle = false })
local EPOCHS, TUNE, ROUND = 8, 4, 2

local function train(net, epochs)
  local optimizer = ridge.optim.AdamW(net:train(), { lr = 1e-3 })
  for _ = 1, epochs do
    for images, labels in ridge.data.Loader({ x, y }, { batch = 64 }):each() do
      optimizer:zero_grad()
      nn.cross_entropy(net(images), labels):backward()
      optimizer:step()
    end
  end
end

local function right(report)
  local list = { ('%.2f'):format(100 * report.candidates[1].accuracy.original.share) }
  for _, c in ipairs(report.candidates) do
    list[#list + 1] = ('%.2f'):format(100 * c.accuracy.quantized.share)
  end
  return list
end

local function verdicts(report)
  local list = {}
  for _, c in ipairs(report.controls) do
    list[#list + 1] = ('beside %s: %s (p %.2g)'):format(c.name, c.verdict, c.accuracy.p)
  end
  return table.concat(list, '; ')
end

local function tell(what, report, more)
  print(('  %-22s %s  %s%s'):format(what, table.concat(right(report), '  '), verdicts(report),
    more or ''))
end

print(('%d + %d digits; accuracy in %%: original, pruned, controls'):format(x:size(1),
  test_x:size(1)))
for seed = 1, seeds do
  ridge.seed(seed)
  local net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
  train(net, EPOCHS)
  net:eval()
  print(('seed %d'):format(seed))
  local i = prune.importance(net, { by = 'taylor',
    calibrate = ridge.data.Loader({ x, y }, { batch = 64 }) })
  local _, shrunk = prune.shrink(net, test_x:narrow(1, 1, 1), { share = 0.5, importance = i,
    train = train, epochs = TUNE, trained = EPOCHS, test = test, seed = seed })
  local s = shrunk.speedup
  tell('shrunk to 64 units', shrunk, ('; %.2fx [%.2f, %.2f] at 1 row'):format(s.ratio, s.lo, s.hi))
  for _, pattern in ipairs { 'element', 'block' } do
    for _, target in ipairs { 0.5, 0.7, 0.9, 0.95 } do
      local schedule = prune.Scheduler { target = target, steps = 3 }
      local m, report = prune.iterative(net, { schedule = schedule, epochs = ROUND, train = train,
        pattern = pattern, test = test, seed = seed })
      local layer = select(2, prune.compact(m)).layers[1]
      tell(('%s %.0f %%'):format(pattern, 100 * prune.analyze(m).share), report,
        ('; 784 -> 128 %s, %.2f [%.2f, %.2f] of its time dense'):format(layer.kind, layer.ratio,
          layer.lo, layer.hi))
    end
  end
end
