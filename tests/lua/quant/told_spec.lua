-- SPDX-License-Identifier: MIT
--- What quantization says and decides, on times, answers and fields that are told: texts to the
--- letter, verdicts on both sides of their borders.

local ridge = require 'ridge'
local ab = require 'ridge.measure.ab'
local accuracy = require 'ridge.quant.accuracy'
local batches = require 'ridge.quant.batches'
local candidates = require 'ridge.quant.candidates'
local compare_text = require 'ridge.quant.compare_text'
local timing = require 'ridge.quant.faster'
local held = require 'ridge.quant.held'
local nets = require 'ridge.quant.nets'
local report = require 'ridge.quant.report'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e.message
end

-- A thin space stands before units.
local function plain(text) return (tostring(text):gsub('\226\128\175', ' '):gsub(' +\n', '\n')) end

-- A module of ridge, loaded anew while pairs of blocks give what is told.
local function with_ab(name, found)
  local was, before, calls = ab.ab, package.loaded[name], {}
  ab.ab = function(opt)
    calls[#calls + 1] = opt
    return found
  end
  package.loaded[name] = nil
  local made = require(name)
  ab.ab, package.loaded[name] = was, before
  return made, calls
end

-- -- Comparing ------------------------------------------------------------------------------------

describe('a comparison as text', function()
  local function of(more)
    local r = { speedup = 2, speedup_lo = 1.5, speedup_hi = 2.5, original_ms = 3,
      quantized_ms = 1.5, shape = { 4, 8 }, comparison = { blocks = 7 }, notes = {},
      bytes = { original = { mb = 8, stored = 4096, packed = 2048, scratch = 16 },
        quantized = { mb = 2, stored = 1024, packed = 512, scratch = 8 } },
      coverage = { share = 0.875, int8 = { 1, 2 }, layers = 3, conversions = 4, paths = {},
        left = {}, notes = {} } }
    for key, value in pairs(more or {}) do r[key] = value end
    return plain(compare_text.of(r))
  end
  local HEAD = 'Speedup: 2.00x [1.50, 2.50]\n'
    .. 'Time: 3 ms -> 1.5 ms, input {4, 8}, plans in 7 paired blocks\n'
    .. 'Size: 8.000 MB (stored 4 KB, packed 2 KB), plan 16 B\n'
    .. '   -> 2.000 MB (stored 1 KB, packed 512 B), plan 8 B: 4.00x smaller\n'
  local TAIL = 'In int8: 87.5 % of FLOP, 2 of 3 layers; 4 conversions left'

  it('says time, size and coverage', function() assert.equal(HEAD .. TAIL, of()) end)

  it('says answers, kernels, what is left and why, and notes', function()
    local text = of { notes = { 'a note of both' },
      accuracy = { n = 200, original = { share = 0.5, lo = 0.4, hi = 0.6 },
        quantized = { share = 0.25, lo = 0.125, hi = 0.375 },
        difference = { share = -0.25, lo = -0.5, hi = 0.125 }, p = 0.0123, only_original = 60,
        only_quantized = 10, changed = 70, kl = 0.1234 },
      coverage = { share = 1, int8 = {}, layers = 2, conversions = 0, paths = { 'a: b', 'c: d' },
        left = { { name = 'fc', class = 'nn.Linear', kind = 'f32', why = 'because' },
          { name = 'x', class = 'nn.Y', kind = 'w4' } }, notes = { 'a note of it' } } }
    assert.equal(HEAD .. 'Accuracy on 200 rows: 50.00 % [40.00 %, 60.00 %] -> 25.00 % [12.50 %, '
      .. '37.50 %]\nDifference: -25.00 % [-50.00, +12.50], exact McNemar p 0.0123 (60 right only '
      .. 'before, 10 only now)\nAnswers changed: 70 of 200; KL from the original: 0.123 nats\n'
      .. 'In int8: 100.0 % of FLOP, 0 of 2 layers; 0 conversions left\nKernels: a: b, c: d\n'
      .. '  fc (nn.Linear) is f32: because\na note of it\na note of both', text)
  end)
end)

describe('the verdict of a comparison', function()
  local net = nn.Sequential(nn.Linear(64, 64, { seed = 1 })):eval()
  local i8 = ridge.quant.dynamic(net, { rows = false })
  local w4 = ridge.quant.weights(net, { bits = 4, rows = false })
  local half = ridge.quant.half(net)
  local none = ridge.quant.dynamic(net, { rows = false, skip = { '1' } })
  local function of(q, lo, hi, iterations)
    local compare, calls = with_ab('ridge.quant.compare', { ratio = 2 / (lo + hi), ci_lo = 1 / hi,
      ci_hi = 1 / lo, a_ns = 3e6, b_ns = 2e6, blocks = 12 })
    local r = compare.compare(net, q, { shape = { 1, 64 }, iterations = iterations })
    return r, calls[1]
  end
  local function notes(...) return table.concat(of(...).notes, '; '):gsub(': .*', '') end

  it('is by the interval of the speed', function()
    assert.same({}, of(i8, 1.01, 1.5).notes)
    assert.equal('no difference in speed was shown', notes(i8, 1, 1.5))
    assert.equal('no difference in speed was shown', notes(i8, 0.5, 1.5))
    assert.equal('no difference in speed was shown', notes(i8, 0.5, 1))
    assert.equal('slower than the original with this input', notes(i8, 0.5, 0.99))
    assert.matches('rounding what comes into a layer', of(i8, 0.5, 0.75).notes[1], 1, true)
    assert.matches('opening codes takes longer', of(w4, 0.5, 0.75).notes[1], 1, true)
    assert.same({ 'slower than the original with this input' }, of(half, 0.5, 0.75).notes)
    assert.same({}, of(half, 2, 3).notes)
    assert.same({}, of(w4, 2, 3).notes)
    assert.equal('slower than the original with this input; nothing runs in whole numbers; '
      .. 'not smaller', notes(none, 0.5, 0.75))
    local r = of(i8, 1.6, 2.4)
    assert.near(2, r.speedup, 1e-12)
    assert.near(1.6, r.speedup_lo, 1e-12)
    assert.near(2.4, r.speedup_hi, 1e-12)
    assert.same({ 3, 2 }, { r.original_ms, r.quantized_ms })
  end)

  it('is of slots that hold all calls, ten seconds at most', function()
    local _, call = of(i8, 1, 2, 1)
    assert.same({ false, 12, 2.5e6 }, { call.check, call.blocks, call.slot_ns })
    _, call = of(i8, 1, 2, 1e7) -- of which one takes more than a nanosecond, and less than 10 us
    assert.is_true(call.slot_ns > 1e7 / 24 and call.slot_ns <= 1e10)
    _, call = of(i8, 1, 2)
    assert.is_true(call.slot_ns >= 2.5e6 and call.slot_ns < 1e9)
  end)

  -- of the slower one too: in a slot that is long enough for the other it has fewer
  it('is of slots that hold all calls of the slower one', function()
    local compare, calls = with_ab('ridge.quant.compare', { ratio = 1, ci_lo = 1, ci_hi = 1,
      a_ns = 1, b_ns = 1, blocks = 12 })
    local function dense(n) return nn.Sequential(nn.Linear(1024, n, { seed = 1 })):eval() end
    local few, many = dense(2), dense(2048)
    local function slot(a, b)
      compare.compare(a, ridge.quant.half(b), { shape = { 64, 1024 }, iterations = 24 * 100 })
      return calls[#calls].slot_ns
    end
    local least = slot(few, few)
    assert.is_true(slot(many, few) > 4 * least)
    assert.is_true(slot(few, many) > 4 * least)
  end)

  it('is of inputs that are given or drawn alike each time', function()
    local compare = with_ab('ridge.quant.compare', { ratio = 1, ci_lo = 1, ci_hi = 1, a_ns = 1,
      b_ns = 1, blocks = 12 })
    local x = ridge.ones(3, 64)
    assert.same({ 3, 64 }, compare.compare(net, i8, { input = x }).shape)
    assert.equal('quant.compare: give shape or input, not both',
      failure(compare.compare, net, i8, { input = x, shape = { 1, 64 } }))
  end)
end)

describe('whether a layer is taken', function()
  local layer, x = nn.Linear(2, 2), ridge.ones(1, 2)
  it('is what was shown: not to be slower', function()
    for verdict, keep in pairs { faster = true, equal = true, slower = false, open = false } do
      local faster, calls = with_ab('ridge.quant.faster', { verdict = verdict, ratio = 1.5,
        ci_lo = 1.25, ci_hi = 1.75 })
      local asked = faster.asked()
      local found = asked:compare('k', layer, layer, x)
      assert.same({ keep = keep, ratio = 1.5, lo = 1.25, hi = 1.75 }, found)
      assert.equal(found, asked:compare('k', layer, layer, x)) -- layers alike are asked once
      assert.equal(1, #calls)
      assert.same({ false, 3 }, { calls[1].check, calls[1].looks })
      asked:compare('another', layer, layer, x)
      assert.equal(2, #calls)
      assert.equal('not shown to be as fast in i8: 1.50 [1.25 .. 1.75] of its time in f32 at 1 row',
        faster.why(found, 1))
      assert.equal('not shown to be as fast in 4 bits: 1.50 [1.25 .. 1.75] of its time in f32 at 2 '
        .. 'rows', faster.why(found, 2, '4 bits'))
    end
  end)

  it('is not where the layer differed from itself as much', function()
    for floor, itself in pairs { [math.log(1.3)] = ', where f32 differed from itself by up to 30 %',
        [0.01] = '' } do
      local faster = with_ab('ridge.quant.faster', { verdict = 'open', ratio = 0.8, ci_lo = 0.75,
        ci_hi = 0.9, floor = floor })
      assert.equal('not shown to be as fast in i8: 0.80 [0.75 .. 0.90] of its time in f32 at 1 row'
        .. itself, faster.why(faster.asked():compare('k', layer, layer, x), 1))
    end
    local faster = with_ab('ridge.quant.faster', { verdict = 'slower', ratio = 1.1, ci_lo = 1.05,
      ci_hi = 1.2, floor = 1 })
    assert.is_nil(faster.asked():compare('k', layer, layer, x).itself)
  end)

  it('is said by those that ask', function()
    local function stays(f)
      local was = ab.ab
      ab.ab = function() return { verdict = 'open', ratio = 1.5, ci_lo = 1.25, ci_hi = 1.75 } end
      local saved = {}
      for _, name in ipairs { 'faster', 'dynamic', 'static', 'weights', 'sensitivity' } do
        saved[name] = package.loaded['ridge.quant.' .. name]
        package.loaded['ridge.quant.' .. name] = nil
      end
      local ok, got = pcall(f)
      ab.ab = was
      for name, module in pairs(saved) do package.loaded['ridge.quant.' .. name] = module end
      assert(ok, got)
      return got
    end
    local net = nn.Sequential(nn.Linear(32, 32, { seed = 1 }),
      nn.Linear(32, 4, { seed = 2 })):eval()
    local function rows_of(q) return report.report(q).layers end
    local why = ' 1.50 [1.25 .. 1.75] of its time in f32 at '
    local list = rows_of(stays(function()
      return require('ridge.quant.dynamic').dynamic(net, { rows = 3, skip = { '2' } })
    end))
    assert.same({ { name = '1', class = 'nn.Linear', kind = 'f32',
      why = 'not shown to be as fast in i8:' .. why .. '3 rows' }, { name = '2',
      class = 'nn.Linear', kind = 'f32', why = 'named in skip' } }, list)
    list = rows_of(stays(function()
      return require('ridge.quant.weights').weights(net, { bits = 3 }) -- rows = 1 when left out
    end))
    assert.equal('not shown to be as fast in 3 bits:' .. why .. '1 row', list[2].why)
    -- 32 -> 32 and 32 -> 4 are asked about apart, the second 32 -> 32 is not
    local asked = 0
    local three = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 4)):eval()
    list = rows_of(stays(function()
      local dull = ab.ab
      ab.ab = function()
        asked = asked + 1
        if asked > 1 then return dull() end
        return { verdict = 'faster', ratio = 0.5, ci_lo = 0.4, ci_hi = 0.6 }
      end
      return require('ridge.quant.weights').weights(three)
    end))
    assert.same({ 'w4', 'w4', 'f32' }, { list[1].kind, list[2].kind, list[3].kind })
    assert.equal(2, asked)
    local data = ridge.data.Loader({ ridge.randn(8, 32) }, { batch = 8 })
    list = rows_of(stays(function()
      return require('ridge.quant.static').static(net, { calibrate = data, rows = 5 })
    end))
    assert.equal('not shown to be as fast in i8:' .. why .. '5 rows', list[1].why)
    assert.equal('f32', list[1].kind)
    -- no more rows than the first batch has
    list = rows_of(stays(function()
      return require('ridge.quant.static').static(net, { calibrate = data, rows = 9 })
    end))
    assert.equal('not shown to be as fast in i8:' .. why .. '8 rows', list[2].why)
    -- a layer that is given a single row without an axis of rows
    local Vector = nn.class 'quant_told.Vector'
    function Vector:init() self.inner = self:child('inner', nn.Linear(32, 4, { seed = 3 })) end
    function Vector:forward(v) return self.inner(v:reshape(-1)) end
    list = rows_of(stays(function()
      return require('ridge.quant.static').static(Vector():eval(),
        { calibrate = ridge.data.Loader({ ridge.randn(8, 32) }, { batch = 1 }), rows = 1 })
    end))
    assert.equal('not shown to be as fast in i8:' .. why .. '1 row', list[1].why)
    -- a sensitivity says what it took
    local labels = ridge.data.Loader({ ridge.randn(8, 32), ridge.zeros(8) }, { batch = 8 })
    local s = stays(function()
      return require('ridge.quant.sensitivity').sensitivity(net, { validate = labels })
    end)
    assert.same({ 1.5, 1.25, 1.75 }, { s.rows[1].ratio, s.rows[1].ratio_lo, s.rows[1].ratio_hi })
  end)

  it('is asked with a number of rows, or false', function()
    local rows_of = require('ridge.quant.dynamic').rows_of
    assert.same({ 1, 7, nil }, { rows_of(1, 'f'), rows_of(7, 'f'), rows_of(false, 'f') })
    for given, shown in pairs { [0] = '0', [1.5] = '1.5', [-1] = '-1', [true] = 'true' } do
      assert.equal('f: option rows is a whole number from 1, or false; got ' .. shown,
        failure(rows_of, given, 'f'))
    end
  end)
end)

-- -- Tables ---------------------------------------------------------------------------------------

describe('a report', function()
  it('counts what was made, and says why the rest was not', function()
    local net = report.attach(nn.Linear(1, 1), 'm', {
      { name = 'a', class = 'nn.Linear', kind = 'i8' },
      { name = 'b', class = 'nn.Conv2d', kind = 'f32', why = 'because' } }, { 'a note', 'another' })
    assert.equal('quant.m: 1 of 2 layers with weights\nlayer  class      type\n'
      .. 'a      nn.Linear  i8\nb      nn.Conv2d  f32\nb: because\na note\nanother',
      plain(report.report(net)))
    assert.equal('quant.m: 0 of 0 layers with weights',
      tostring(report.report(report.attach(nn.Linear(1, 1), 'm', {}))))
    assert.equal('quant.report: a quantized net is expected, got 3', failure(report.report, 3))
    assert.matches('^quant.report: a quantized net is expected, got ',
      failure(report.report, nn.Linear(1, 1)))
    assert.is_true(rawequal(net, net:train(false)))
    assert.matches('^quant: a quantized net is not trained', failure(net.train, net))
    assert.matches('^quant: a quantized net is not trained', failure(net.train, net, true))
  end)
end)

describe('a quantized layer', function()
  local net = nn.Sequential(nn.Linear(32, 32, { seed = 1 })):eval()
  local q = ridge.quant.dynamic(net, { rows = false })

  it('is not trained, and stays what it is elsewhere', function()
    local layer, x = q[1], ridge.randn(3, 32)
    local before = layer(x)
    assert.is_true(rawequal(layer, layer:eval()))
    assert.is_true(rawequal(layer, layer:train(false)))
    assert.is_true(rawequal(layer, layer:to 'cpu'))
    assert.is_true(rawequal(layer, layer:to 'f16'))
    assert.equal(0, (layer(x) - before):abs():max():item())
    for _, on in ipairs { 'nil', true } do
      assert.matches(': a quantized layer is not trained', failure(layer.train, layer,
        on ~= 'nil' and on or nil))
    end
    assert.matches("there is no element type 'f17'", failure(layer.to, layer, 'f17'))
  end)

  it('is refused where what is not quantized is expected', function()
    local data = ridge.data.Loader({ ridge.randn(8, 32) }, { batch = 8 })
    for name, f in pairs { dynamic = ridge.quant.dynamic, prepare = ridge.quant.prepare,
        convert = ridge.quant.convert, smooth = ridge.quant.smooth, static = ridge.quant.static,
        weights = ridge.quant.weights } do
      local opts = (name == 'static' or name == 'smooth') and { calibrate = data } or nil
      local what = 'quant.' .. name
      assert.equal(what .. ': 1 is quantized already (by quant.dynamic); begin with the net it was '
        .. 'made from', failure(f, nn.Sequential(q):eval(), opts))
      assert.equal(what .. ': a net (module) is expected, got 3', failure(f, 3, opts))
    end
  end)
end)

describe('a search', function()
  -- Layers that cost no accuracy in any kind: their answers are those of the net.
  local net = nn.Sequential(nn.Linear(32, 32, { seed = 1 }), nn.Linear(32, 2, { seed = 2 })):eval()
  local x = ridge.randn(40, 32, { generator = ridge.generator(4) })
  local validate = ridge.data.Loader({ x, net(x):argmax(2) }, { batch = 40, shuffle = false })

  it('is a table: what is at the front, megabytes, accuracy', function()
    local _, found = ridge.quant.search(net, { validate = validate, kinds = { 'w8' } })
    local meta = getmetatable(found)
    local s = setmetatable({ points = {
      { front = true, mb = 1.5, drop = 0.25, drop_lo = 0.125, drop_hi = 0.5, changed = 3, n = 40,
        taken = false, layers = '1:i8' },
      { front = false, mb = 2, drop = -0.5, drop_lo = -0.75, drop_hi = 0, changed = 4, n = 40,
        taken = true, layers = '1:f32' } } }, meta)
    assert.equal('front  MB      accuracy %               changed  taken  layers\n'
      .. '*      1.5000  -25.00 [-50.00, -12.50]  3 of 40  no     1:i8\n'
      .. '       2.0000  +50.00 [-0.00, +75.00]   4 of 40  yes    1:f32', plain(s))
  end)

  it('takes the least harm for a byte first, and what saves more of the same layer', function()
    local q, found = ridge.quant.search(net, { validate = validate, max_drop = 1,
      kinds = { 'w8', 'w4', 'w2' } })
    for _, row in ipairs(report.report(q).layers) do assert.equal('w2', row.kind) end
    for i, p in ipairs(found.points) do
      assert.is_true(p.taken)
      assert.is_true(p.mb < (i > 1 and found.points[i - 1].mb or 1))
      assert.is_true(p.drop_lo <= p.drop and p.drop <= p.drop_hi)
      -- nothing smaller is as good
      local front = true
      for _, other in ipairs(found.points) do
        if other ~= p and other.mb <= p.mb and other.drop <= p.drop and (other.mb < p.mb
            or other.drop < p.drop) then
          front = false
        end
      end
      assert.equal(front, p.front)
    end
    local last = found.points[#found.points]
    assert.equal('1:w2 2:w2', last.layers)
    assert.matches('1:w%d 2:f32', found.points[1].layers .. ' 1:w8 2:f32')
    local notes = report.report(q).notes
    assert.equal(('chosen on 40 rows: accuracy may drop by 100 %% of them; %d nets were tried')
      :format(#found.points), notes[1])
    assert.equal(('there it drops by %.2f %% [%.2f, %.2f], %d answers changed'):format(
      100 * last.drop, 100 * last.drop_lo, 100 * last.drop_hi, last.changed), notes[2])
    assert.matches('^[%d.]+ times as fast %[[%d.]+, [%d.]+%] at 1 row', notes[3])
    assert.equal(3, #notes)
  end)

  it('says how fast what it chose is, and why it is not', function()
    local asked, seen = timing.asked, {}
    local function of(lo, hi, more)
      timing.asked = function()
        return { compare = function(_, _, before, after, input)
          seen = { before, after, input:size() }
          return { ratio = 2 / (lo + hi), lo = 1 / hi, hi = 1 / lo }
        end }
      end
      local opts = { validate = validate, max_drop = 1, kinds = { 'w8' } }
      for key, value in pairs(more or {}) do opts[key] = value end
      local ok, q, found = pcall(ridge.quant.search, net, opts)
      timing.asked = asked
      assert.is_true(ok, tostring(q))
      return report.report(q).notes[3], found, q
    end
    local line, found, q = of(1.5, 2.5)
    assert.equal('2.00 times as fast [1.50, 2.50] at 1 row', line)
    assert.same({ 2, 1.5, 2.5, 1 }, { found.speedup, found.speedup_lo, found.speedup_hi,
      found.rows })
    assert.same({ net, q, { 1, 32 } }, seen)
    assert.equal('0.50 times as fast [0.25, 0.75] at 1 row: slower than the original with this '
      .. 'input: opening codes takes longer than reading weights that stay in the caches; larger '
      .. 'layers gain', (of(0.25, 0.75)))
    assert.equal('1.00 times as fast [0.75, 1.25] at 7 rows: no difference in speed was shown',
      (of(0.75, 1.25, { rows = 7 })))
    of(1, 1, { rows = 1000 })
    assert.same({ 40, 32 }, seen[3])
    assert.matches('rounding what comes into a layer', (of(0.25, 0.75, { kinds = { 'i8' } })))
    line, found = of(1, 1, { rows = false })
    assert.equal('time was not looked at (rows = false); quant.compare measures it', line)
    assert.is_nil(found.speedup)
    assert.equal('quant.search: option rows is a whole number from 1, or false; got 0',
      failure(ridge.quant.search, net, { validate = validate, rows = 0 }))
    -- labels that only the net itself meets, and two bits do not
    local hard = ridge.randn(400, 32, { generator = ridge.generator(5) })
    local same = ridge.quant.search(net, { max_drop = 0, kinds = { 'w2' },
      validate = ridge.data.Loader({ hard, net(hard):argmax(2) }, { batch = 400 }) })
    assert.equal('no layer is in fewer bits: the net is as large and as fast as it was',
      report.report(same).notes[2])
  end)

  it('says of what it left that it cost too much', function()
    -- answers that nobody can keep: every net loses the same, and none may lose anything
    local wrong = ridge.data.Loader({ x, ridge.ones(40) - net(x):argmax(2):to 'f32' },
      { batch = 40, shuffle = false })
    local _, found = ridge.quant.search(net, { validate = wrong, max_drop = 0, kinds = { 'w2' } })
    assert.is_true(#found.points > 0) -- changed answers are right ones here: all are taken
    for _, p in ipairs(found.points) do assert.is_true(p.taken and p.drop <= 0) end
    local q
    q, found = ridge.quant.search(net, { validate = validate, max_drop = 0, kinds = { 'w2' } })
    local left = 0
    for i, row in ipairs(report.report(q).layers) do
      if row.kind == 'f32' then
        left = left + 1
        assert.equal('fewer bits cost more accuracy than max_drop, or save no byte', row.why, i)
      end
    end
    local taken = 0
    for _, p in ipairs(found.points) do taken = taken + (p.taken and 1 or 0) end
    assert.equal(2 - left, taken)
  end)
end)

describe('a sensitivity', function()
  it('is a table of harm and gain, and says what stays', function()
    local net = nn.Sequential(nn.Linear(32, 2, { seed = 1 })):eval()
    local data = ridge.data.Loader({ ridge.randn(8, 32), ridge.zeros(8) }, { batch = 8 })
    local s = ridge.quant.sensitivity(net, { validate = data, rows = false })
    local row = s.rows[1]
    assert.same({ '1 i8', '1', 'nn.Linear', 'i8', 8 },
      { row.point, row.layer, row.class, row.kind, row.n })
    local meta = getmetatable(s)
    local told = setmetatable({ rows = {
      { layer = 'a', kind = 'i8', kl = 0.12345, changed = 2, n = 8,
        difference = { share = -0.25, lo = -0.5, hi = 0.125 }, saved_mb = 1.5, ratio = 0.5,
        ratio_lo = 0.25, ratio_hi = 0.75 },
      { layer = 'b', kind = 'w4', kl = 0, changed = 0, n = 8,
        difference = { share = 0, lo = -0.125, hi = 0.125 }, saved_mb = 0.25 } },
      left = { { name = 'c', why = 'because' } } }, meta)
    assert.equal('layer  type  KL     changed  accuracy %               MB saved  time of f32\n'
      .. 'a      i8    0.123  2 of 8   -25.00 [-50.00, +12.50]  1.5000    0.50 [0.25, 0.75]\n'
      .. 'b      w4    0      0 of 8   +0.00 [-12.50, +12.50]   0.2500\nc stays f32: because',
      plain(told))
  end)
end)

describe('bytes of a net', function()
  it('count memory once that two modules share', function()
    local one = nn.Linear(8, 8, { seed = 1 })
    local net = nn.Sequential(one, nn.ReLU(), one):eval()
    assert.equal(4 * 72, held.bytes(net).stored)
    local two = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)):eval()
    assert.equal(2 * 4 * 72, held.bytes(two).stored)
    two[2]:param('weight', two[1].weight:detach()) -- another tensor of the same memory
    assert.equal(2 * 4 * 72 - 4 * 64, held.bytes(two).stored)
    assert.same({ 0, 0 }, { held.bytes(two).scratch, held.bytes(two).packed })
  end)
end)

describe('what no kind fits', function()
  it('is told, with why', function()
    local big = nn.Sequential(nn.Linear(32, 32, { seed = 1 }), nn.Linear(32, 4)):eval()
    ridge.no_grad(function() big[2].weight:mul_(1e9) end)
    local data = ridge.data.Loader({ ridge.randn(8, 32), ridge.zeros(8) }, { batch = 8 })
    local s = ridge.quant.sensitivity(big, { validate = data, rows = false, kinds = { 'w4' } })
    assert.equal(1, #s.rows)
    assert.same({ { name = '2', class = 'nn.Linear',
      why = 'a scale of its weights is above 65504, the largest number of f16' } }, s.left)
    assert.matches('\n2 stays f32: a scale of its weights is above 65504', tostring(s))
  end)
end)

-- -- What is asked for ----------------------------------------------------------------------------

describe('kinds', function()
  it('are those that there are', function()
    assert.same({ 'i8', 'w8', 'w6', 'w4', 'w3', 'w2' }, candidates.KINDS)
    candidates.check({ 'i8', 'w2' }, 'f')
    assert.equal('f: kinds is empty', failure(candidates.check, {}, 'f'))
    assert.equal("f: there is no kind 'w5'; known: i8, w8, w6, w4, w3, w2",
      failure(candidates.check, { 'i8', 'w5' }, 'f'))
  end)
end)

describe('names in skip', function()
  local net = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2))
  it('are of layers, and of what holds them', function()
    local skipped = nets.skipped(net, { '1' }, 'f')
    assert.same({ true, true, false, false }, { skipped '1', skipped '1.1', skipped '2',
      skipped '11' })
    assert.is_false(nets.skipped(net, nil, 'f') '1')
    assert.is_true(nets.skipped(nn.Linear(1, 1), { 'nn.Linear' }, 'f') 'nn.Linear')
    assert.matches("^f: skip names '1.2', and there is no such module",
      failure(nets.skipped, net, { '2', '1.2' }, 'f'))
    assert.matches("^f: option skip is a list of names, and 'a' is no place in it",
      failure(nets.skipped, net, { a = '2' }, 'f'))
  end)
end)

describe('batches', function()
  local function loader(...)
    local list = { ... }
    return { each = function()
      local i = 0
      return function() i = i + 1 return unpack(list[i] or {}) end
    end }
  end
  local a, b, c = ridge.ones(1, 2), ridge.ones(1, 2) * 2, ridge.ones(1, 2) * 3

  it('are so many at most, one at least', function()
    local function count(most)
      local n = 0
      for x, y in batches.each(loader({ a, 1 }, { b, 2 }, { c, 3 }), most, 'f', 'data') do
        n = n + 1
        assert.equal(n, y)
        assert.equal(n, x:max():item())
      end
      return n
    end
    assert.same({ 1, 2, 3, 3, 3 }, { count(1), count(2), count(3), count(4), count() })
    assert.equal('f: data has no batch', failure(batches.each(loader(), nil, 'f', 'data')))
    assert.equal('f: option data is a loader (ridge.data.Loader), got 3',
      failure(batches.each, 3, nil, 'f', 'data'))
    assert.matches('^f: option data is a loader', failure(batches.each, { each = 3 }, 1, 'f',
      'data'))
    assert.matches('^f: a batch of data', failure(batches.each(loader { 3 }, nil, 'f', 'data')))
  end)

  it('are looked at without being lost', function()
    local first, again = batches.peek(loader({ a }, { b }), 'f', 'data')
    assert.is_true(rawequal(a, first))
    local seen = {}
    for x in again:each() do seen[#seen + 1] = x:max():item() end
    assert.same({ 1, 2 }, seen)
  end)

  it('are the same where more than half of the rows are', function()
    local seen = batches.seen()
    seen:add(ridge.tensor { { 1, 2 }, { 3, 4 } })
    seen:add(ridge.tensor(7)) -- no rows
    assert.equal(2, seen.n)
    local function refuse(rows) return pcall(seen.refuse, seen, loader { ridge.tensor(rows) }, 'f',
      'test', 'those') end
    assert.is_true((refuse { { 2, 1 }, { 4, 3 } }))
    assert.is_true((refuse { { 1, 2 }, { 4, 3 } }))
    local ok, err = refuse { { 1, 2 }, { 3, 4 }, { 5, 6 } }
    assert.is_false(ok)
    assert.equal('f: 2 of the 3 rows of test are rows of those: what was chosen on data is not '
      .. 'tested on it', err.message)
  end)
end)

describe('answers', function()
  local function pair(y, labels)
    return accuracy.pair(function() return y end, function() return y end, { each = function()
      local given
      return function()
        if given then return nil end
        given = true
        return y, labels
      end
    end }, 'f')
  end
  it('are of rows of classes, with a label for each', function()
    local y = ridge.ones(2, 3)
    assert.matches('^f: accuracy is of outputs %[rows x classes%], and the net gives f32%[2%]',
      failure(pair, ridge.ones(2), ridge.zeros(2)))
    for _, labels in ipairs { ridge.zeros(3), ridge.zeros(2, 1) } do
      assert.matches('^f: a loader of %(x, labels%) is expected, with a label for each of 2 rows; '
        .. 'got ', failure(pair, y, labels))
    end
    local head = 'f: labels are whole numbers from 0 to 2, one of the classes that the net tells '
      .. 'apart; got '
    assert.equal(head .. '0 .. 3', failure(pair, y, ridge.tensor { 0, 3 }))
    assert.equal(head .. '-1 .. 2', failure(pair, y, ridge.tensor { -1, 2 }))
    assert.equal(head .. 'parts of one', failure(pair, y, ridge.tensor { 0.5, 2 }))
    local r = pair(y, ridge.tensor { 0, 2 })
    assert.same({ 2, 0.5, 0, 0, 0 }, { r.n, r.original.share, r.changed, r.kl, r.difference.share })
  end)
end)
