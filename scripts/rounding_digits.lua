-- SPDX-License-Identifier: MIT
-- Ways to round weights beside the nearest code: scales of least error, AWQ, GPTQ, smoothing and
-- training with rounding, 784-128-10 on digits, over seeds.
--
-- Each is held against rounding to the nearest code of the same bits (and smoothing also before
-- static i8, for which it is made) by pairs on test images that nothing was chosen on: the
-- difference of accuracy, and the divergence from the answers in f32 (KL) over that of nearest
-- codes. Intervals are over the seeds. What is trained with rounding has two epochs more than the
-- others, so it stands beside the network that had as many in f32 and was rounded then.
--
-- machine: any
-- time:    of a seed on one thread: 15 s
-- result:  a row for each way and number of bits, with a verdict
--
--     ./ridge --threads 1 scripts/rounding_digits.lua --data DIR [--seeds 5]

local ridge = require 'ridge'
local accuracy = require 'ridge.quant.accuracy'
local copy = require 'ridge.nn.copy'
local interval = require 'ridge.measure.interval'
local nn, quant = ridge.nn, ridge.quant

local opt = ridge.args {
  { 'data', '', 'folder with the IDX files of MNIST, or of a part of them' },
  { 'seeds', 5, 'of the network', integer = true, min = 2 },
  { 'epochs', 6, 'of training', integer = true, min = 1 },
  { 'tune', 2, 'epochs of training with rounding', integer = true, min = 1 },
}

-- -- Data and network -----------------------------------------------------------------------------

local sets = ridge.data.mnist(opt.data)
local function rows(set)
  return (set.images:to 'f32' / 255):reshape(set.images:size(1), 784), set.labels:contiguous()
end
local x, y = rows(sets.train)
local test_x, test_y = rows(sets.test)
local test = ridge.data.Loader({ test_x, test_y }, { batch = 250, shuffle = false })
local calibrate = ridge.data.Loader({ x:narrow(1, 1, 500) }, { batch = 100, shuffle = false })

local function train(net, epochs, rate, seed)
  local optimizer = ridge.optim.Adam(net:train(), { lr = rate })
  local batches = ridge.data.Loader({ x, y }, { batch = 50, seed = seed })
  for _ = 1, epochs do
    for a, b in batches:each() do
      ridge.scope(function()
        optimizer:zero_grad()
        nn.cross_entropy(net(a), b):backward()
        optimizer:step()
      end)
      if ridge.stopping() then os.exit(130) end
    end
  end
  return net:eval()
end

-- -- Ways -----------------------------------------------------------------------------------------

local function weights(net, bits, method)
  return quant.weights(net, { bits = bits, method = method, pad = true, rows = false,
    calibrate = (method == 'awq' or method == 'gptq') and calibrate or nil })
end

local function static(net) return quant.static(net, { calibrate = calibrate, rows = false }) end

local function smoothed(net)
  local other = copy.clone(net)
  quant.smooth(other, { calibrate = calibrate })
  return other
end

-- Name, what it is held against, what both are made of: (net, bits, the net tuned in f32, seed).
local function nearest(net, bits) return weights(net, bits, 'rtn') end
local WAYS = {
  { 'least error', nearest, function(net, bits) return weights(net, bits, 'mse') end },
  { 'awq', nearest, function(net, bits) return weights(net, bits, 'awq') end },
  { 'gptq', nearest, function(net, bits) return weights(net, bits, 'gptq') end },
  { 'smoothed, nearest', nearest, function(net, bits) return nearest(smoothed(net), bits) end },
  { 'trained with rounding', function(_, bits, tuned) return nearest(tuned, bits) end,
    function(net, bits, _, seed)
      local prepared = quant.prepare(copy.clone(net), { bits = bits, pad = true })
      return quant.convert(train(prepared, opt.tune, 5e-4, seed))
    end },
}

local list, by = {}, {}
local function note(name, net, plain, other, seed)
  local row = by[name]
  if not row then
    row = { name = name, difference = {}, ratio = {}, plain = {}, other = {}, changed = {},
      sure = 0 }
    by[name], list[#list + 1] = row, row
  end
  local pair = accuracy.pair(plain, other, test, 'rounding_digits')
  local kl = { accuracy.pair(net, plain, test, 'rounding_digits').kl,
    accuracy.pair(net, other, test, 'rounding_digits').kl }
  row.difference[seed], row.changed[seed] = pair.difference.share, pair.changed
  row.plain[seed], row.other[seed] = pair.original.share, pair.quantized.share
  row.ratio[seed] = math.log(kl[2] / kl[1])
  if pair.p < 0.05 then row.sure = row.sure + 1 end
end

for seed = 1, opt.seeds do
  local net = train(nn.Sequential(nn.Linear(784, 128, { seed = 100 * seed }), nn.ReLU(),
    nn.Linear(128, 10, { seed = 100 * seed + 1 })), opt.epochs, 2e-3, seed)
  local tuned = train(copy.clone(net), opt.tune, 5e-4, seed)
  for _, bits in ipairs { 4, 3, 2 } do
    for _, way in ipairs(WAYS) do
      note(('%d bits, %s'):format(bits, way[1]), way[1]:find '^trained' and tuned or net,
        way[2](net, bits, tuned), way[3](net, bits, tuned, seed), seed)
    end
  end
  note('i8 static, smoothed', net, static(net), static(smoothed(net)), seed)
end

-- -- Verdicts -------------------------------------------------------------------------------------

local function mean(values)
  local sum = 0
  for _, v in ipairs(values) do sum = sum + v end
  return sum / #values
end

local function verdict(lo, hi, better)
  if lo <= 0 and hi >= 0 then return 'open' end
  return (lo > 0) == better and 'better' or 'worse'
end

print(('784-128-10, %d images, %d of test, %d seeds; beside nearest codes of the same bits'):format(
  x:size(1), test_x:size(1), opt.seeds))
print(('%-30s %-8s %-8s %-24s %-9s %-8s %-24s %s'):format('', 'nearest', 'this', 'difference %',
  'changed', 'p < .05', 'KL over that of nearest', 'accuracy, KL'))
for _, row in ipairs(list) do
  table.sort(row.changed)
  local lo, hi = interval.student(row.difference, 0.95)
  local kl_lo, kl_hi = interval.student(row.ratio, 0.95)
  print(('%-30s %-8.2f %-8.2f %-24s %-9s %-8s %-24s %s, %s'):format(row.name,
    100 * mean(row.plain), 100 * mean(row.other),
    ('%+.2f [%+.2f, %+.2f]'):format(100 * mean(row.difference), 100 * lo, 100 * hi),
    ('%d-%d'):format(row.changed[1], row.changed[#row.changed]),
    ('%d of %d'):format(row.sure, opt.seeds), ('%.2f [%.2f, %.2f]'):format(
    math.exp(mean(row.ratio)), math.exp(kl_lo), math.exp(kl_hi)),
    verdict(lo, hi, true), verdict(kl_lo, kl_hi, false)))
end
