-- SPDX-License-Identifier: MIT
-- Networks made smaller in every way there is, and in chains of them, over seeds: a perceptron and
-- a convolutional network on digits, a small transformer on text.
--
-- Pruned (three patterns), narrower, distilled, in fewer bits, and the chain prune -> distill ->
-- quantize: answers on rows that nothing was trained on, by pairs; megabytes held and stored; time
-- at 1 and 64 rows in paired blocks. A pruned layer is kept as what is not 0 in it, also where that
-- is slower: this says what the versions are, not what to choose.
--
-- Three parts, each of which goes on where it was ended. The first trains, and keeps each network
-- as a file (--nets) and a row of its answers and bytes (OUT.tsv). The second, --times, reads the
-- files and times them, so that it can be run alone on a quiet machine (OUT_times.tsv). The third
-- prints the table of what is known, always, and with --figure draws OUT_NET.png.
--
-- machine: any
-- time:    of a seed on one thread: 10 s of the perceptron, three minutes of each of the others
-- result:  the table, as far as it is known
--
--     ./ridge scripts/smaller_nets.lua --data DIR --nets DIR [--only mlp] [--times] [--figure]

local ridge = require 'ridge'
local ab = require('ridge.measure.ab').ab
local accuracy = require 'ridge.quant.accuracy'
local compact = require('ridge.prune.compact').compact
local fresh = require 'ridge.prune.fresh'
local held = require 'ridge.quant.held'
local interval = require 'ridge.measure.interval'
local statistics = require 'ridge.measure.statistics'
local versions = require 'ridge.smaller.versions'
local mean, median = statistics.mean, statistics.median
local nn = ridge.nn

local opt = ridge.args {
  { 'data', '', 'folder with the IDX files of MNIST, or of a part of them' },
  { 'nets', '', 'folder where networks are kept' },
  { 'only', '', 'one of the networks', choices = { '', 'mlp', 'cnn', 'transformer' } },
  { 'seeds', 5, 'of each network', integer = true, min = 1 },
  { 'from', 1, 'the first seed that is trained or timed', integer = true, min = 1 },
  { 'times', false, 'time what is kept, and train nothing' },
  { 'timed', 2, 'seeds that are timed', integer = true, min = 1 },
  { 'table', false, 'neither train nor time: print what is known' },
  { 'figure', false, 'draw megabytes against accuracy, and time against accuracy' },
  { 'out', 'results/kept/smaller_nets', 'what the files of rows and pictures begin with' },
  { 'threads', 1, 'compute threads', integer = true, min = 1, max = 1024 },
}
ridge.set_num_threads(opt.threads)

-- -- Rows on file ---------------------------------------------------------------------------------

-- Rows of a table, by network, seed and version; keep(row) writes one.
local function table_at(path, fields)
  local known = {}
  local function key(row) return row.net .. ' ' .. row.seed .. ' ' .. row.version end
  local file = io.open(path)
  if file then
    for line in file:lines() do
      local row, i = {}, 0
      for cell in line:gmatch '[^\t]+' do
        i = i + 1
        row[fields[i] or ''] = tonumber(cell) or cell
      end
      if i == #fields then known[key(row)] = row end -- a line that was cut is made again
    end
    file:close()
  end
  return known, function(row)
    local out, cells = assert(io.open(path, 'a')), {}
    for i, name in ipairs(fields) do
      cells[i] = type(row[name]) == 'number' and ('%.8g'):format(row[name]) or row[name]
    end
    if out:seek 'end' == 0 then out:write(table.concat(fields, '\t'), '\n') end
    out:write(table.concat(cells, '\t'), '\n')
    out:close()
    known[key(row)] = row
  end
end

local answers, keep_answers = table_at(opt.out .. '.tsv', { 'net', 'seed', 'version', 'original',
  'accuracy', 'difference', 'p', 'changed', 'kl', 'f32_mb', 'mb', 'f32_stored_mb', 'stored_mb',
  'why' })
local times, keep_times = table_at(opt.out .. '_times.tsv', { 'net', 'seed', 'version', 'load',
  'b1_f32_ms', 'b1_ms', 'b1', 'b1_lo', 'b1_hi', 'b64_f32_ms', 'b64_ms', 'b64', 'b64_lo',
  'b64_hi' })

local function key_of(name, seed, version) return name .. ' ' .. seed .. ' ' .. version end

-- -- Data -----------------------------------------------------------------------------------------

local function digits(shape)
  local sets = ridge.data.mnist(opt.data)
  local function rows_of(set)
    local n = set.images:size(1)
    return (set.images:to 'f32' / 255):reshape(n, unpack(shape)), set.labels:contiguous()
  end
  local x, y = rows_of(sets.train)
  local test_x, test_y = rows_of(sets.test)
  return { x = x, y = y, test_x = test_x, answers = test_x:size(1),
    test = ridge.data.Loader({ test_x, test_y }, { batch = 250, shuffle = false }),
    calibrate = ridge.data.Loader({ x:narrow(1, 1, 500) }, { batch = 100, shuffle = false }) }
end

local LENGTH, PIECES = 64, 64 -- letters of a piece, pieces that are tested on

-- The licences that every Debian carries, as numbers of their letters; the last tenth is kept for
-- testing: pieces of it that do not overlap, spread over it.
local function text()
  local list, number, n = {}, {}, 0
  for _, name in ipairs { 'Apache-2.0', 'Artistic', 'GPL-2', 'GPL-3', 'LGPL-2.1', 'MPL-2.0' } do
    local file = assert(io.open('/usr/share/common-licenses/' .. name, 'rb'))
    for letter in file:read '*a':gmatch '.' do
      if not number[letter] then
        number[letter], n = n, n + 1
      end
      list[#list + 1] = number[letter]
    end
    file:close()
  end
  local all, cut = ridge.tensor(list, { dtype = 'u8' }), math.floor(0.9 * #list)
  local function pieces(first, last, count)
    local starts = (ridge.arange(0, count - 1) * ((last - first - LENGTH - 1) / count) + first)
      :floor():reshape(count, 1)
    local found = all:take((starts + ridge.arange(0, LENGTH):reshape(1, LENGTH + 1)):to 'i64')
    return found:narrow(2, 1, LENGTH):contiguous(), found:narrow(2, 2, LENGTH):contiguous()
  end
  local test_x, test_y = pieces(cut, #list, PIECES)
  return { all = all, cut = cut, letters = n, pieces = pieces, test_x = test_x,
    answers = PIECES * LENGTH,
    test = { each = function()
      local i = 0
      return function()
        i = i + 1
        if i > PIECES / 16 then return nil end
        local at = (i - 1) * 16 + 1
        return test_x:narrow(1, at, 16), test_y:narrow(1, at, 16):reshape(-1):to 'i64'
      end
    end },
    calibrate = ridge.data.Loader({ (pieces(0, cut, 64)) }, { batch = 16, shuffle = false }) }
end

-- -- Networks -------------------------------------------------------------------------------------

local function loss_of(net, teacher, x, y)
  local out = net(x)
  out = out:reshape(-1, out:size(-1))
  if not teacher then return nn.cross_entropy(out, y) end
  local says = ridge.inference(teacher, x):reshape(-1, out:size(2))
  return nn.distillation_loss(out, says, y, { temperature = 4, alpha = 0.7 })
end

local function step(net, optimizer, schedule, teacher, x, y)
  ridge.scope(function()
    optimizer:zero_grad()
    loss_of(net, teacher, x, y):backward()
    optimizer:step { scale = optimizer:clip(1) }
  end)
  schedule:step()
  if ridge.stopping() then os.exit(130) end
end

-- An optimizer, and its rate over so many steps: a cosine that falls to a tenth.
local function optimizer_of(net, steps)
  local optimizer = ridge.optim.Adam(net:train(), { lr = 2e-3 })
  return optimizer, ridge.optim.CosineLR(optimizer, { steps = steps, final = 0.1 })
end

-- By the labels alone, or by what a teacher says as well.
local function digits_trainer(data, seed, teacher)
  return function(net, epochs)
    local batches = ridge.data.Loader({ data.x, data.y }, { batch = 50, seed = seed })
    local optimizer, schedule = optimizer_of(net, epochs * math.ceil(data.x:size(1) / 50))
    for _ = 1, epochs do
      for x, y in batches:each() do step(net, optimizer, schedule, teacher, x, y) end
    end
  end
end

local EPOCH = 100 -- steps of 16 pieces from random places

local function text_trainer(data, seed, teacher)
  local stream = ridge.generator(seed)
  return function(net, epochs)
    local optimizer, schedule = optimizer_of(net, epochs * EPOCH)
    local reach = ridge.arange(0, LENGTH):reshape(1, LENGTH + 1)
    for _ = 1, epochs * EPOCH do
      local starts = ridge.rand(16, 1, { generator = stream }) * (data.cut - LENGTH - 1)
      local found = data.all:take((starts:floor() + reach):to 'i64')
      step(net, optimizer, schedule, teacher, found:narrow(2, 1, LENGTH):contiguous(),
        found:narrow(2, 2, LENGTH):reshape(-1):to 'i64')
    end
  end
end

local NETS = {
  mlp = { about = '784-128-10, digits', epochs = 6, tune = 2, trainer = digits_trainer,
    data = function() return digits { 784 } end,
    make = function(_, s)
      return nn.Sequential(nn.Linear(784, 128, { seed = s }), nn.ReLU(),
        nn.Linear(128, 10, { seed = s + 1 }))
    end },
  cnn = { about = 'two convolutions of 3x3 and two dense layers, digits', epochs = 5, tune = 1,
    trainer = digits_trainer, data = function() return digits { 1, 28, 28 } end,
    make = function(_, s)
      return nn.Sequential(nn.Conv2d(1, 16, 3, { padding = 1, seed = s }), nn.BatchNorm(16),
        nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, { padding = 1, seed = s + 1 }),
        nn.BatchNorm(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(1568, 64, { seed = s + 2 }), nn.ReLU(), nn.Linear(64, 10, { seed = s + 3 }))
    end },
  -- where a letter stands is told by nothing but how many are in front of it
  transformer = { about = 'two blocks of width 64, 4 heads, the next of letters', epochs = 20,
    tune = 3, trainer = text_trainer, data = text,
    make = function(data, s)
      local function block(i)
        return nn.TransformerBlock(64, { heads = 4, causal = true, seed = s + i })
      end
      return nn.Sequential(nn.Embedding(data.letters, 64, { seed = s }), block(1), block(2),
        nn.LayerNorm(64), nn.Linear(64, data.letters, { seed = s + 3 }))
    end },
}
local ORDER = opt.only == '' and { 'mlp', 'cnn', 'transformer' } or { opt.only }

-- -- Versions -------------------------------------------------------------------------------------

local VERSIONS = {}

-- One change alone; distilled: tuned by what the original says as well.
local function add(v)
  v.width, v.pattern, v.sparsity = v.width or 1, v.pattern or 'dense', v.sparsity or 0
  v.bits = v.bits or 'f32'
  local plain = v.width == 1 and v.pattern == 'dense'
  local name = plain and '' or versions.name(v) .. (v.distilled and ', distilled' or '')
    .. (v.control == 'random' and ', random' or v.control == 'start' and ' from the start' or '')
  v.structure = name
  v.name = name .. (v.bits == 'f32' and '' or (plain and '' or ', ') .. versions.kind_name(v.bits))
  VERSIONS[#VERSIONS + 1] = v
end

for _, bits in ipairs { 'bf16', 'dynamic', 'static', 'w8', 'w6', 'w4', 'w3', 'w2' } do
  add { bits = bits }
end
for _, width in ipairs { 0.75, 0.5, 0.25 } do add { width = width } end
for _, pattern in ipairs { 'element', 'block' } do
  for _, share in ipairs { 0.5, 0.7, 0.9, 0.95 } do add { pattern = pattern, sparsity = share } end
end
for _, m in ipairs { 4, 8, 16 } do -- 50, 75, 87.5 and 93.75 %
  if m == 4 then add { pattern = '2:4', sparsity = 0.5 } end
  add { pattern = '1:' .. m, sparsity = 1 - 1 / m }
end
add { width = 0.5, distilled = true }
for _, chain in ipairs { { 1, 'block', 0.7 }, { 0.5 }, { 0.5, 'block', 0.5 } } do
  for _, bits in ipairs { 'static', 'w4' } do -- the chain prune -> distill -> quantize
    add { width = chain[1], pattern = chain[2], sparsity = chain[3], bits = bits,
      distilled = true }
  end
end
-- controls: what goes is drawn; and the narrower shape from the start, with as many epochs
add { pattern = 'element', sparsity = 0.9, control = 'random' }
add { pattern = 'block', sparsity = 0.5, control = 'random' }
add { width = 0.5, control = 'random' }
add { width = 0.5, control = 'start' }

-- A structure, trained; those of the same name are trained once.
local function structure(kind, data, net, v, seed, made)
  if v.structure == '' then return net end
  if not made[v.structure] then
    local train = kind.trainer(data, seed, v.distilled and net or nil)
    local given = { input = data.test_x:narrow(1, 1, 1), seed = seed, epochs = kind.tune,
      train = train }
    if v.control == 'start' then
      given.train = nil
      local small = versions.structure(net, v, given)
      assert(not fresh.begin(small, seed))
      train(small:train(), kind.epochs + kind.tune)
      made[v.structure] = small:eval()
    else
      made[v.structure] = versions.structure(net, v, given, v.control)
    end
  end
  return made[v.structure]
end

local FORMAT = { element = 'rows', block = 'blocks' }

local function version(kind, data, net, v, seed, made)
  local one = structure(kind, data, net, v, seed, made)
  if v.bits == 'f32' and v.pattern ~= 'dense' then
    return (compact(one, { format = FORMAT[v.pattern] or 'n:m' }))
  end
  return assert(versions.of(one, v, v.bits, { input = data.test_x:narrow(1, 1, 1), goal = 'bytes',
    calibrate = data.calibrate }))
end

-- -- Training, answers and bytes ------------------------------------------------------------------

local function path_of(name, seed, version_name)
  return ('%s/%s %d %s.safetensors'):format(opt.nets, name, seed, version_name)
end

local function answers_of(net) -- a row for each that is asked for
  return function(x)
    local y = net(x)
    return y:reshape(-1, y:size(-1))
  end
end

-- Copies that are packed for products come with the first run, at each batch.
local function bytes_of(net, data)
  for _, n in ipairs { 1, 64 } do
    ridge.capture(ridge.inference, net, data.test_x:narrow(1, 1, n)):release()
  end
  local found = held.bytes(net)
  return found.mb, found.stored / 2 ^ 20
end

local function answers_row(name, seed, v, data, net, q)
  local a = accuracy.pair(answers_of(net), answers_of(q), data.test, 'smaller_nets')
  local row = { net = name, seed = seed, version = v.name, original = a.original.share,
    accuracy = a.quantized.share, difference = a.difference.share, p = a.p, changed = a.changed,
    kl = a.kl, why = '-' }
  row.f32_mb, row.f32_stored_mb = bytes_of(net, data)
  row.mb, row.stored_mb = bytes_of(q, data)
  return row
end

-- A row of what cannot be made, with ridge's sentence; what is none of these is an error.
local function infeasible(name, seed, v, why)
  local sentence = tostring(why):match 'prune%.[^\n]*'
  if not sentence then error(tostring(why), 0) end
  return setmetatable({ net = name, seed = seed, version = v.name, why = sentence },
    { __index = function() return '-' end })
end

local function train(name, seed)
  local kind = NETS[name]
  local data, net, made
  for _, v in ipairs(VERSIONS) do
    if not answers[key_of(name, seed, v.name)] then
      if not net then
        data, made = kind.kept or kind.data(), {}
        kind.kept = data
        net = kind.make(data, 100 * seed)
        kind.trainer(data, seed)(net, kind.epochs)
        net:eval():save(path_of(name, seed, 'f32'))
      end
      local ok, q = pcall(version, kind, data, net, v, seed, made)
      if ok then
        keep_answers(answers_row(name, seed, v, data, net, q))
        q:save(path_of(name, seed, v.name))
      else
        keep_answers(infeasible(name, seed, v, q))
      end
    end
    if ridge.stopping() then os.exit(130) end
  end
end

-- -- Times ----------------------------------------------------------------------------------------

local function load_now()
  local file = io.open '/proc/loadavg'
  local text_of = file and file:read '*l' or ''
  if file then file:close() end
  return tonumber(text_of:match '^%S+') or -1
end

local function time(name, seed)
  local kind = NETS[name]
  local input
  for _, v in ipairs(VERSIONS) do
    local key = key_of(name, seed, v.name)
    if answers[key] and answers[key].why == '-' and not times[key] then
      kind.kept = kind.kept or kind.data()
      input = kind.kept.test_x
      local net = nn.load(path_of(name, seed, 'f32')):eval()
      local q = nn.load(path_of(name, seed, v.name)):eval()
      local row = { net = name, seed = seed, version = v.name, load = load_now() }
      for _, n in ipairs { 1, 64 } do
        local one = ridge.capture(ridge.inference, net, input:narrow(1, 1, n))
        local two = ridge.capture(ridge.inference, q, input:narrow(1, 1, n))
        local found, b = ab { a = one, b = two, check = false, looks = 3 }, 'b' .. n
        row[b .. '_f32_ms'], row[b .. '_ms'] = found.a_ns / 1e6, found.b_ns / 1e6
        row[b] = 1 / found.ratio
        row[b .. '_lo'], row[b .. '_hi'] = 1 / found.ci_hi, 1 / found.ci_lo
        one:release()
        two:release()
      end
      keep_times(row)
    end
    if ridge.stopping() then os.exit(130) end
  end
end

if not opt.table then
  if opt.nets == '' then error('smaller_nets: --nets is needed, the folder of networks', 0) end
  for _, name in ipairs(ORDER) do
    for seed = opt.from, opt.times and math.min(opt.timed, opt.seeds) or opt.seeds do
      (opt.times and time or train)(name, seed)
    end
  end
end

-- -- Table ----------------------------------------------------------------------------------------

local function rows_of(known, name, v)
  local list = {}
  for seed = 1, opt.seeds do
    local row = known[key_of(name, seed, v.name)]
    if row and (row.why or '-') == '-' then list[#list + 1] = row end
  end
  return list
end

-- Why a version cannot be made, of how many seeds; nil where it can.
local function why_not(name, v)
  local n, why = 0, nil
  for seed = 1, opt.seeds do
    local row = answers[key_of(name, seed, v.name)]
    if row and row.why ~= '-' then n, why = n + 1, why or row.why end
  end
  return why and ('infeasible for %d seed%s: %s'):format(n, n == 1 and '' or 's', why)
end

local function column(list, name)
  local out = {}
  for i, row in ipairs(list) do out[i] = row[name] end
  table.sort(out)
  return out
end

local function with_interval(list)
  local lo, hi = -math.huge, math.huge
  if #list > 1 then lo, hi = interval.student(list, 0.95) end
  return mean(list), lo, hi
end

-- The median over the seeds that were timed; the lowest and the highest end of their intervals.
local function speed(list, b)
  if #list == 0 then return 'not timed' end
  return ('%.4f %5.2f [%5.2f, %5.2f]'):format(median(column(list, b .. '_ms')),
    median(column(list, b)), column(list, b .. '_lo')[1], column(list, b .. '_hi')[#list])
end

local LOST, TIME = 'accuracy lost in %', 'time of 64 rows beside f32'

-- What is known of a version, as a point of pictures: accuracy lost in percent, megabytes, and time
-- at 64 rows beside the original's.
local function point_of(name, v)
  local list, timed = rows_of(answers, name, v), rows_of(times, name, v)
  if #list == 0 then return nil end
  local d, lo, hi = with_interval(column(list, 'difference'))
  local row = { version = v.name, MB = median(column(list, 'mb')), [LOST] = -100 * d,
    [LOST .. '_lo'] = -100 * hi, [LOST .. '_hi'] = -100 * lo }
  if #timed > 0 then
    row[TIME] = 1 / median(column(timed, 'b64'))
    row[TIME .. '_lo'] = 1 / column(timed, 'b64_hi')[#timed]
    row[TIME .. '_hi'] = 1 / column(timed, 'b64_lo')[1]
  end
  return row
end

local function print_table(name)
  local first, clock = rows_of(answers, name, VERSIONS[1]), rows_of(times, name, VERSIONS[1])
  if #first == 0 then return end
  local kind = NETS[name]
  print(('%s (%s), %d seed%s, %d epochs and %d for what is tuned, %d thread%s: f32 %.2f %%, %.3f '
    .. 'MB held, %.3f stored%s'):format(name, kind.about, #first, #first == 1 and '' or 's',
    kind.epochs, kind.tune, opt.threads, opt.threads == 1 and '' or 's',
    100 * mean(column(first, 'original')), median(column(first, 'f32_mb')),
    median(column(first, 'f32_stored_mb')), #clock == 0 and '; nothing is timed'
      or ('; %.4f ms at b1, %.4f at b64; load %.1f to %.1f'):format(
        median(column(clock, 'b1_f32_ms')), median(column(clock, 'b64_f32_ms')),
        column(clock, 'load')[1], column(clock, 'load')[#clock])))
  print(('  %-44s %-6s %-25s %-10s %-6s %-8s %-29s %-29s %-6s %s'):format('version', 'acc %',
    'difference %', 'changed', 'p<.05', 'KL', 'b1: ms, times as fast', 'b64: ms, times as fast',
    'MB', 'stored'))
  for _, v in ipairs(VERSIONS) do
    local list, timed, sure = rows_of(answers, name, v), rows_of(times, name, v), 0
    local why = why_not(name, v)
    if why then print(('  %-44s %s'):format(v.name, why)) end
    if #list > 0 then
      for _, row in ipairs(list) do sure = sure + (row.p < 0.05 and 1 or 0) end
      local d, lo, hi = with_interval(column(list, 'difference'))
      local changed = column(list, 'changed')
      print(('  %-44s %6.2f %-25s %-10s %-6s %-8.2g %-29s %-29s %-6.3f %.3f'):format(v.name,
        100 * mean(column(list, 'accuracy')),
        ('%+.2f [%+.2f, %+.2f]'):format(100 * d, 100 * lo, 100 * hi),
        ('%d-%d'):format(changed[1], changed[#changed]), ('%d of %d'):format(sure, #list),
        mean(column(list, 'kl')), speed(timed, 'b1'), speed(timed, 'b64'),
        median(column(list, 'mb')), median(column(list, 'stored_mb'))))
    end
  end
end

-- Each with the original as a point; controls are none.
local function draw(name)
  local points, first = {}, rows_of(answers, name, VERSIONS[1])
  if #first == 0 then return end
  for _, v in ipairs(VERSIONS) do
    points[#points + 1] = not v.control and point_of(name, v) or nil
  end
  points[#points + 1] = { version = 'f32', [LOST] = 0, [TIME] = 1,
    MB = median(column(first, 'f32_mb')) }
  ridge.plot.draw('pareto', points, { x = 'MB', y = LOST, label = 'version', better_x = 'lower',
    better_y = 'lower' }):save(('%s_%s.png'):format(opt.out, name))
  local timed = {}
  for _, point in ipairs(points) do timed[#timed + 1] = point[TIME] and point or nil end
  if #timed < 2 then return end
  ridge.plot.draw('pareto', timed, { x = TIME, y = LOST, label = 'version',
    better_x = 'lower', better_y = 'lower' }):save(('%s_%s_time.png'):format(opt.out, name))
end

print 'accuracy is the mean of the seeds, its difference has a 95 % interval over them; changed:'
print 'answers, least and most of a seed; p<.05: in how many seeds, by McNemar; MB: all it holds'
for _, name in ipairs(ORDER) do
  print_table(name)
  if opt.figure then draw(name) end
end
