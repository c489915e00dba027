-- SPDX-License-Identifier: MIT
--- What networks in fewer bits gain and cost on digits: f32, bf16, i8 (dynamic, static), weights of
--- 8, 6, 4, 3 and 2 bits, plainly rounded and by gptq: accuracy, time at 1 and 64 rows, megabytes;
--- and a verdict for each claim of the documents (004: dynamic 2 to 3 times as fast, static 3 to 4,
--- a quarter of the memory, half to a quarter of the size, less than 1 % of accuracy).
--
-- Each network is trained once a seed; every version of it answers the same test digits, so that
-- accuracy is compared by pairs (answers that changed, exact McNemar test), and the mean difference
-- has its interval over the seeds. Ranges and gptq see 500 training images and no test image. Every
-- layer is taken, also where it is slower: this says what the versions are, not what to choose.
--
-- Each row is written when it is known, and a run that was ended goes on where it was.
--
-- machine: any
-- time:    about two minutes a seed on two cores
-- result:  a table and the verdicts; rows in results/quant_digits.tsv
--
--     ./ridge recipes/quant.lua --data DIR [--seeds 5] [--rows FILE] [--threads 1]

local ridge = require 'ridge'
local interval = require 'ridge.measure.interval'
local statistics = require 'ridge.measure.statistics'
local mean, median = statistics.mean, statistics.median
local nn = ridge.nn

local opt = ridge.args {
  { 'data', '', 'folder with the IDX files of MNIST' },
  { 'seeds', 5, 'networks of each kind', integer = true, min = 2 },
  { 'epochs', 6, 'of training', integer = true, min = 1 },
  { 'only', '', 'one of the networks, mlp or cnn', choices = { '', 'mlp', 'cnn' } },
  { 'rows', 'results/quant_digits.tsv', 'what is known already, and what is found',
    writes = 'file' },
  { 'threads', 1, 'compute threads', integer = true, min = 1, max = 1024 },
  { 'iterations', 200, 'calls that are timed', integer = true, min = 1 },
  { 'smoke', false, 'toy sizes, to see that everything works' },
}
if opt.smoke then
  opt.seeds, opt.epochs, opt.iterations, opt.only = 2, 1, 1, 'mlp'
end
ridge.set_num_threads(opt.threads)

-- -- Data and networks ----------------------------------------------------------------------------

local sets
if opt.data ~= '' then
  sets = ridge.data.mnist(opt.data)
else
  local n, n_test = opt.smoke and 200 or 7000, opt.smoke and 200 or 1500
  local images, labels = ridge.data.segments(n + n_test, { seed = 1, noise = 60 })
  local last = { images = images:narrow(1, n + 1, n_test),
    labels = labels:narrow(1, n + 1, n_test) }
  sets = { train = { images = images:narrow(1, 1, n), labels = labels:narrow(1, 1, n) },
    test = last }
  print 'no --data given: digits of seven strokes, made here'
end

local NETS = {
  mlp = { shape = { 784 }, make = function(seed)
    return nn.Sequential(nn.Linear(784, 128, { seed = seed }), nn.ReLU(),
      nn.Linear(128, 10, { seed = seed + 1 }))
  end },
  cnn = { shape = { 1, 28, 28 }, make = function(seed)
    return nn.Sequential(nn.Conv2d(1, 16, 3, { padding = 1, seed = seed }), nn.BatchNorm(16),
      nn.ReLU(), nn.MaxPool2d(2), nn.Residual(nn.Sequential(nn.Conv2d(16, 16, 3, { padding = 1,
      seed = seed + 1 }), nn.BatchNorm(16), nn.ReLU(), nn.Conv2d(16, 16, 3, { padding = 1,
      seed = seed + 2 }), nn.BatchNorm(16))), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
      nn.Linear(784, 64, { seed = seed + 3 }), nn.ReLU(), nn.Linear(64, 10, { seed = seed + 4 }))
  end },
}
local ORDER = opt.only == '' and { 'mlp', 'cnn' } or { opt.only }

local function images(set, shape)
  local n = set.images:size(1)
  return (set.images:to 'f32' / 255):reshape(n, unpack(shape)), set.labels:contiguous()
end

local function loader(x, y, batch)
  return ridge.data.Loader({ x, y }, { batch = math.min(batch, x:size(1)), shuffle = false })
end

local function trained(name, seed)
  local x, y = images(sets.train, NETS[name].shape)
  local net = NETS[name].make(100 * seed)
  local optimizer = ridge.optim.Adam(net:train(), { lr = 2e-3 })
  local batches = ridge.data.Loader({ x, y }, { batch = 50, seed = seed })
  for _ = 1, opt.epochs do
    for a, b in batches:each() do
      ridge.scope(function()
        optimizer:zero_grad()
        nn.cross_entropy(net(a), b):backward()
        optimizer:step()
      end)
      if ridge.stopping() then os.exit(130) end
    end
  end
  return net:eval(), loader(x:narrow(1, 1, math.min(500, x:size(1))), nil, 100)
end

-- -- Versions -------------------------------------------------------------------------------------

local quant = ridge.quant
local VERSIONS = {
  { 'bf16', function(net, _) return quant.half(net, 'bf16') end },
  { 'i8 dynamic', function(net, _) return quant.dynamic(net, { rows = false }) end },
  { 'i8 static', function(net, data)
    return quant.static(net, { calibrate = data, rows = false })
  end },
}
for _, bits in ipairs(opt.smoke and { 4 } or { 8, 6, 4, 3, 2 }) do
  VERSIONS[#VERSIONS + 1] = { ('w%d rtn'):format(bits), function(net, _)
    return quant.weights(net, { bits = bits, method = 'rtn', pad = true, rows = false })
  end }
  VERSIONS[#VERSIONS + 1] = { ('w%d gptq'):format(bits), function(net, data)
    return quant.weights(net, { bits = bits, method = 'gptq', calibrate = data, pad = true,
      rows = false })
  end }
end

-- Rows of other settings in the same file are others' rows: of other data, or of toy sizes.
local SETTING = ('%s, %d + %d images, %d epochs, %d threads, %d calls'):format(
  opt.data ~= '' and opt.data:gsub('%s', ' ') or 'made', sets.train.images:size(1),
  sets.test.images:size(1), opt.epochs, opt.threads, opt.iterations)
local FIELDS = { 'setting', 'net', 'seed', 'version', 'original', 'accuracy', 'difference', 'p',
  'changed', 'kl', 'b1_f32_ms', 'b1_ms', 'b1', 'b1_lo', 'b1_hi', 'b64_f32_ms', 'b64_ms', 'b64',
  'b64_lo', 'b64_hi', 'f32_mb', 'mb', 'f32_stored', 'stored' }

local known, rows = {}, {}
local function key(row) return row.net .. ' ' .. row.seed .. ' ' .. row.version end

local function read()
  local file = io.open(opt.rows)
  if not file then return end
  for line in file:lines() do
    local row, i = {}, 0
    for cell in line:gmatch '[^\t]+' do
      i = i + 1
      row[FIELDS[i] or ''] = tonumber(cell) or cell
    end
    if i == #FIELDS and row.setting == SETTING then -- a line that was cut is measured again
      known[key(row)] = true
      rows[#rows + 1] = row
    end
  end
  file:close()
end

local function keep(row)
  local file = assert(io.open(opt.rows, 'a'))
  local cells = {}
  for i, name in ipairs(FIELDS) do
    local value = row[name]
    cells[i] = type(value) == 'number' and ('%.8g'):format(value) or value
  end
  if file:seek 'end' == 0 then file:write(table.concat(FIELDS, '\t'), '\n') end
  file:write(table.concat(cells, '\t'), '\n')
  file:close()
  rows[#rows + 1] = row
end

local function measure(net, q, name, seed, version)
  local x, y = images(sets.test, NETS[name].shape)
  local one = quant.compare(net, q, { input = x:narrow(1, 1, 1), iterations = opt.iterations,
    test = loader(x, y, 250) })
  local many = quant.compare(net, q, { input = x:narrow(1, 1, 64), iterations = opt.iterations })
  local a, bytes = one.accuracy, one.bytes
  keep { setting = SETTING, net = name, seed = seed, version = version, original = a.original.share,
    accuracy = a.quantized.share, difference = a.difference.share, p = a.p, changed = a.changed,
    kl = a.kl, b1_f32_ms = one.original_ms, b1_ms = one.quantized_ms, b1 = one.speedup,
    b1_lo = one.speedup_lo, b1_hi = one.speedup_hi, b64_f32_ms = many.original_ms,
    b64_ms = many.quantized_ms, b64 = many.speedup, b64_lo = many.speedup_lo,
    b64_hi = many.speedup_hi, f32_mb = bytes.original.mb, mb = bytes.quantized.mb,
    f32_stored = bytes.original.stored, stored = bytes.quantized.stored }
end

read()
for seed = 1, opt.seeds do
  for _, name in ipairs(ORDER) do
    local net, data
    for _, version in ipairs(VERSIONS) do
      if not known[key { net = name, seed = seed, version = version[1] }] then
        if not net then net, data = trained(name, seed) end
        measure(net, version[2](net, data), name, seed, version[1])
      end
      if ridge.stopping() then os.exit(130) end
    end
  end
end

-- -- Table ----------------------------------------------------------------------------------------

local function of(name, version)
  local list = {}
  for _, row in ipairs(rows) do
    if row.net == name and row.version == version then list[#list + 1] = row end
  end
  return list
end

local function column(list, f)
  local out = {}
  for i, row in ipairs(list) do out[i] = type(f) == 'function' and f(row) or row[f] end
  table.sort(out)
  return out
end

-- A speedup over the seeds: the median, the lowest and the highest end of the intervals; each of
-- paired blocks, so it is within its own, which a ratio of the two medians need not be.
local function speedup(list, at)
  return median(column(list, at)), column(list, at .. '_lo')[1], column(list, at .. '_hi')[#list]
end

local function loss(list)
  local differences = column(list, 'difference')
  local lo, hi = -math.huge, math.huge
  if #list > 1 then lo, hi = interval.student(differences, 0.95) end
  return mean(differences), lo, hi
end

print(('%d thread%s; accuracy is the mean of the seeds, its difference has a 95 %% interval over '
  .. 'them; changed: answers of the test images, least and most; p<.05: in how many seeds'):format(
  opt.threads, opt.threads == 1 and '' or 's'))
for _, name in ipairs(ORDER) do
  local first = of(name, 'bf16')
  print(('%s, %d seeds: f32 %.2f %%, %.4f ms at b1, %.4f at b64, %.3f MB held, %.3f MB stored')
    :format(name, #first, 100 * mean(column(first, 'original')), median(column(first, 'b1_f32_ms')),
    median(column(first, 'b64_f32_ms')), median(column(first, 'f32_mb')),
    median(column(first, 'f32_stored')) / 2 ^ 20))
  print('  version     accuracy  difference %           changed  p<.05  KL        b1 times as fast'
    .. '     b64 times as fast    MB held  stored')
  for _, version in ipairs(VERSIONS) do
    local list = of(name, version[1])
    local d, lo, hi = loss(list)
    local one, one_lo, one_hi = speedup(list, 'b1')
    local many, many_lo, many_hi = speedup(list, 'b64')
    local changed, sure = column(list, 'changed'), 0
    for _, row in ipairs(list) do sure = sure + (row.p < 0.05 and 1 or 0) end
    print(('  %-10s  %7.2f   %+5.2f [%+6.2f, %+5.2f]   %3d-%-3d  %d of %d %8.2g  '
      .. '%5.2f [%5.2f, %5.2f]  %5.2f [%5.2f, %5.2f]  %6.3f   %6.3f'):format(version[1],
      100 * mean(column(list, 'accuracy')), 100 * d, 100 * lo, 100 * hi, changed[1],
      changed[#changed], sure, #list, mean(column(list, 'kl')), one, one_lo, one_hi, many, many_lo,
      many_hi, median(column(list, 'mb')), median(column(list, 'stored')) / 2 ^ 20))
  end
end

-- -- Claims ---------------------------------------------------------------------------------------

-- Holds where the whole interval reaches what is claimed, does not where none of it does.
local function verdict(lo, hi, least)
  return lo >= least and 'holds' or hi < least and 'does not hold' or 'open'
end

local function row(claim, name, text, found)
  print(('%-46s %-4s %-28s %s'):format(claim, name, text, found))
end

print 'claims'
for _, name in ipairs(ORDER) do
  for _, case in ipairs { { 'i8 dynamic', 2, 'dynamic: 2 to 3 times as fast' },
    { 'i8 static', 3, 'static: 3 to 4 times as fast' } } do
    local list = of(name, case[1])
    for _, at in ipairs { 'b1', 'b64' } do
      local found, lo, hi = speedup(list, at)
      row(case[3] .. ', ' .. at, name, ('%.2f [%.2f, %.2f]'):format(found, lo, hi),
        verdict(lo, hi, case[2]))
    end
    local held = column(list, function(r) return r.f32_mb / r.mb end)
    row(case[1] .. ': 4 to 5 times less memory', name, ('%.2f [%.2f, %.2f]'):format(median(held),
      held[1], held[#held]), verdict(held[1], held[#held], 4))
    local size = column(list, function(r) return 1 - r.stored / r.f32_stored end)
    row(case[1] .. ': 50 to 75 % less size', name, ('%.1f %%'):format(100 * median(size)),
      verdict(size[1], size[#size], 0.5))
    local d, lo, hi = loss(list)
    row(case[1] .. ': less than 1 % of accuracy', name, ('%+.2f %% [%+.2f, %+.2f]'):format(100 * d,
      100 * lo, 100 * hi), verdict(lo, hi, -0.01))
  end
end
