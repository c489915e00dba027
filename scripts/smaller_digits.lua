-- SPDX-License-Identifier: MIT
-- A network of digits made smaller in every way there is, and in chains of them, over seeds:
--
--   ./ridge --threads 1 scripts/smaller_digits.lua FOLDER ROWS.tsv [SEEDS] [mlp|cnn]
--
-- FOLDER has the files of MNIST, or a part of them. Pruned (three patterns), narrower, distilled,
-- and the chain prune -> distill -> quantize: accuracy on test images by pairs of answers, time at
-- 1 and 64 rows in paired blocks, megabytes held. Bits alone are in recipes/quant.lua. Each row is
-- written when it is known, and a run that was ended goes on where it was; what is printed is the
-- mean over the seeds with its interval. Rows: results/kept/smaller_digits.tsv.

local ridge = require 'ridge'
local ab = require('ridge.measure.ab').ab
local accuracy = require 'ridge.quant.accuracy'
local fresh = require 'ridge.prune.fresh'
local held = require 'ridge.quant.held'
local interval = require 'ridge.measure.interval'
local mean = require('ridge.measure.statistics').mean
local versions = require 'ridge.smaller.versions'
local nn = ridge.nn

local folder, path, seeds, kind = arg[1], arg[2], tonumber(arg[3] or 5), arg[4] or 'mlp'
if not path then
  error 'usage: ./ridge scripts/smaller_digits.lua FOLDER ROWS.tsv [SEEDS] [mlp|cnn]'
end
local EPOCHS, TUNE = 6, 2
local sets = ridge.data.mnist(folder)
local shape = kind == 'cnn' and { 1, 28, 28 } or { 784 }

local function rows_of(set)
  local n = set.images:size(1)
  return (set.images:to 'f32' / 255):reshape(n, unpack(shape)), set.labels:contiguous()
end
local x, y = rows_of(sets.train)
local test_x, test_y = rows_of(sets.test)
local test = ridge.data.Loader({ test_x, test_y }, { batch = 250, shuffle = false })
local calibrate = ridge.data.Loader({ x:narrow(1, 1, 500) }, { batch = 100, shuffle = false })

local function made(seed)
  local s = 100 * seed
  if kind == 'mlp' then
    return nn.Sequential(nn.Linear(784, 128, { seed = s }), nn.ReLU(),
      nn.Linear(128, 10, { seed = s + 1 }))
  end
  return nn.Sequential(nn.Conv2d(1, 16, 3, { padding = 1, seed = s }), nn.BatchNorm(16), nn.ReLU(),
    nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, { padding = 1, seed = s + 1 }), nn.BatchNorm(32),
    nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 64, { seed = s + 2 }), nn.ReLU(),
    nn.Linear(64, 10, { seed = s + 3 }))
end

-- By the labels alone, or by what a teacher says as well.
local function trainer(seed, teacher)
  return function(net, epochs)
    local optimizer = ridge.optim.Adam(net:train(), { lr = 2e-3 })
    local batches = ridge.data.Loader({ x, y }, { batch = 50, seed = seed })
    for _ = 1, epochs do
      for a, b in batches:each() do
        ridge.scope(function()
          optimizer:zero_grad()
          local out = net(a)
          local loss = teacher and nn.distillation_loss(out, ridge.inference(teacher, a), b,
            { temperature = 4, alpha = 0.7 }) or nn.cross_entropy(out, b)
          loss:backward()
          optimizer:step()
        end)
        if ridge.stopping() then os.exit(130) end
      end
    end
  end
end

-- -- Versions -------------------------------------------------------------------------------------

local function at(width, pattern, sparsity, bits, distilled)
  return { width = width, pattern = pattern or 'dense', sparsity = sparsity or 0,
    bits = bits or 'f32', distilled = distilled }
end

local VERSIONS = {}
local function add(v)
  v.name = versions.name(v) .. (v.distilled and ', distilled' or '') .. (v.bits ~= 'f32'
    and ', ' .. versions.kind_name(v.bits) or '')
  VERSIONS[#VERSIONS + 1] = v
end
for _, width in ipairs { 0.75, 0.5, 0.25 } do add(at(width)) end
add(at(1, '2:4', 0.5))
for _, share in ipairs { 0.5, 0.7, 0.9, 0.95 } do
  add(at(1, 'element', share))
  add(at(1, 'block', share))
end
add(at(0.5, nil, nil, nil, true))
for _, bits in ipairs { 'static', 'w4' } do
  add(at(1, 'block', 0.7, bits, true)) -- the chain prune -> distill -> quantize
  add(at(0.5, nil, nil, bits, true))
  add(at(0.5, 'block', 0.5, bits, true))
end
-- the control of what is narrower: its shape from the start, with as many epochs
VERSIONS[#VERSIONS + 1] = { name = 'width 0.5 from the start', start = true, width = 0.5,
  pattern = 'dense', sparsity = 0, bits = 'f32' }

local function version(net, v, seed)
  local opts = { input = test_x:narrow(1, 1, 1), seed = seed, epochs = TUNE, goal = 'bytes',
    calibrate = calibrate, train = trainer(seed, v.distilled and net or nil) }
  if v.start then
    opts.train = nil
    local small = versions.structure(net, v, opts)
    assert(not fresh.begin(small, seed))
    trainer(seed)(small:train(), EPOCHS + TUNE)
    return small:eval()
  end
  return assert(versions.of(versions.structure(net, v, opts), v, v.bits, opts))
end

-- -- Rows -----------------------------------------------------------------------------------------

local FIELDS = { 'net', 'seed', 'version', 'original', 'accuracy', 'difference', 'p', 'changed',
  'kl', 'b1_ms', 'b1', 'b1_lo', 'b1_hi', 'b64_ms', 'b64', 'b64_lo', 'b64_hi', 'f32_mb', 'mb' }

local known = {}
local file = io.open(path)
if file then
  for line in file:lines() do
    local row, i = {}, 0
    for cell in line:gmatch '[^\t]+' do
      i = i + 1
      row[FIELDS[i] or ''] = tonumber(cell) or cell
    end
    if i == #FIELDS and row.net == kind then known[row.seed .. row.version] = row end
  end
  file:close()
end

local function keep(row)
  local out, cells = assert(io.open(path, 'a')), {}
  for i, name in ipairs(FIELDS) do
    cells[i] = type(row[name]) == 'number' and ('%.8g'):format(row[name]) or row[name]
  end
  if out:seek 'end' == 0 then out:write(table.concat(FIELDS, '\t'), '\n') end
  out:write(table.concat(cells, '\t'), '\n')
  out:close()
  known[row.seed .. row.version] = row
end

local function measure(net, q, seed, name)
  local a = accuracy.pair(net, q, test, 'smaller_digits')
  local row = { net = kind, seed = seed, version = name, original = a.original.share,
    accuracy = a.quantized.share, difference = a.difference.share, p = a.p, changed = a.changed,
    kl = a.kl }
  for _, n in ipairs { 1, 64 } do
    local input = test_x:narrow(1, 1, n)
    local one = ridge.capture(ridge.inference, net, input)
    local two = ridge.capture(ridge.inference, q, input)
    local found, b = ab { a = one, b = two, check = false, looks = 3 }, 'b' .. n
    row[b .. '_ms'], row[b] = found.b_ns / 1e6, 1 / found.ratio
    row[b .. '_lo'], row[b .. '_hi'] = 1 / found.ci_hi, 1 / found.ci_lo
    one:release()
    two:release()
  end
  row.f32_mb, row.mb = held.bytes(net).mb, held.bytes(q).mb
  keep(row)
end

for seed = 1, seeds do
  local net
  for _, v in ipairs(VERSIONS) do
    if not known[seed .. v.name] then
      if not net then
        net = made(seed)
        trainer(seed)(net, EPOCHS)
        net:eval()
      end
      measure(net, version(net, v, seed), seed, v.name)
      if ridge.stopping() then os.exit(130) end
    end
  end
end

-- -- Table ----------------------------------------------------------------------------------------

local function column(list, name)
  local out = {}
  for i, row in ipairs(list) do out[i] = row[name] end
  table.sort(out)
  return out
end

local function median(list) return list[math.ceil(#list / 2)] end

local function speed(list, b)
  return ('%5.2f [%5.2f, %5.2f]'):format(median(column(list, b)), column(list, b .. '_lo')[1],
    column(list, b .. '_hi')[#list])
end

print(('%s, %d seeds, %d + %d digits: accuracy is the mean of the seeds, its difference has a '
  .. '95 %% interval over them; p<.05: in how many seeds'):format(kind, seeds, x:size(1),
  test_x:size(1)))
print(('%-34s %-8s %-26s %-8s %-7s %-22s %-22s %s'):format('version', 'accuracy', 'difference %',
  'changed', 'p<.05', 'b1 times as fast', 'b64 times as fast', 'MB of f32'))
for _, v in ipairs(VERSIONS) do
  local list, sure = {}, 0
  for seed = 1, seeds do list[seed] = known[seed .. v.name] end
  for _, row in ipairs(list) do sure = sure + (row.p < 0.05 and 1 or 0) end
  local d, lo, hi = column(list, 'difference'), -math.huge, math.huge
  if #list > 1 then lo, hi = interval.student(d, 0.95) end
  local changed = column(list, 'changed')
  print(('%-34s %-8s %-26s %-8s %-7s %-22s %-22s %s'):format(v.name, ('%.2f'):format(100
    * mean(column(list, 'accuracy'))), ('%+.2f [%+.2f, %+.2f]'):format(100 * mean(d), 100 * lo,
    100 * hi), ('%d-%d'):format(changed[1], changed[#changed]), ('%d of %d'):format(sure, #list),
    speed(list, 'b1'), speed(list, 'b64'), ('%.3f of %.3f'):format(median(column(list, 'mb')),
    median(column(list, 'f32_mb')))))
end
