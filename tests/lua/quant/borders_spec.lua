-- SPDX-License-Identifier: MIT
--- Numbers of quantization at their borders: scales and zeros, ranges by searches that are written
--- out here, bins, groups, padding, what a bias has room for.

local ridge = require 'ridge'
local awq = require 'ridge.quant.awq'
local fixed = require 'ridge.quant.fixed'
local gptq = require 'ridge.quant.gptq'
local groups = require 'ridge.quant.groups'
local histogram = require 'ridge.quant.histogram'
local int8 = require 'ridge.quant.int8'
local observers = require 'ridge.quant.observers'
local padding = require 'ridge.quant.padding'
local pool = require 'ridge.quant.pool'
local ranges = require 'ridge.quant.ranges'
local scheme = require 'ridge.quant.scheme'
local second_moment = require 'ridge.quant.second_moment'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e.message
end

describe('a scheme', function()
  it('has the numbers of its type', function()
    assert.same({ 0, 255 }, { scheme.limits 'u8' })
    assert.same({ -127, 127 }, { scheme.limits 'i8' })
  end)

  it('holds 0, has a scale of f32, and none that is nothing', function()
    assert.same({ 2, 0 }, { scheme.of(100, 510, 'u8') })
    assert.same({ 2, 255 }, { scheme.of(-510, -100, 'u8') })
    assert.same({ 4, 0 }, { scheme.of(-508, 100, 'i8') })
    assert.same({ 4, 0 }, { scheme.of(-100, 508, 'i8') })
    assert.same({ 2 ^ -126, 0 }, { scheme.of(0, 0, 'u8') })
    assert.same({ 2 ^ -126, 0 }, { scheme.of(0, 0, 'i8') })
    local third = scheme.of(0, 85, 'u8')
    assert.equal(ridge.tensor({ 1 / 3 }):item(), third)
    assert.is_true(third ~= 1 / 3)
    for at, zero in pairs { [1.4] = 1, [1.6] = 2, [2.4] = 2, [2.6] = 3, [4.5] = 4, [5.5] = 6 } do
      assert.same({ 1, zero }, { scheme.of(-at, 255 - at, 'u8') })
    end
  end)
end)

-- -- Ranges ---------------------------------------------------------------------------------------

-- A histogram that holds what is told: middles, counts, width of a bin.
local function bins(middles, counts, width)
  local n = 0
  for _, count in ipairs(counts) do n = n + count end
  return { n = n, zeros = 0, filled = function() return middles, counts, width end }
end

-- Of 128 parts of a range the first with the least loss, from all of it down.
local function best(lo, hi, loss)
  local least, at = 1 / 0, 128
  for i = 128, 1, -1 do
    local value = loss(lo * i / 128, hi * i / 128)
    if value < least then least, at = value, i end
  end
  return lo * at / 128, hi * at / 128
end

local function code_of(x, scale, zero) return math.floor(x / scale + 0.5) + zero end

describe('a range', function()
  it('by percentile leaves out so many on either side, and ends where bins end', function()
    local h = bins({ -3, -1, 1, 3, 5 }, { 1, 9, 80, 9, 1 }, 2)
    for share, want in pairs { [1] = { -4, 6 }, [0.99] = { -4, 6 }, [0.981] = { -4, 6 },
        [0.98] = { -2, 4 }, [0.9] = { -2, 4 }, [0.79] = { 0, 2 } } do
      assert.same(want, { ranges.percentile(h, share) }, share)
    end
    assert.same({ 0, 2 }, { ranges.percentile(bins({ 1 }, { 4 }, 2), 0.5) })
  end)

  local cases = {}
  for seed = 1, 6 do
    local middles, counts, at = {}, {}, -40 - 30 * (seed % 3)
    local g = ridge.generator(seed)
    local steps = ridge.rand(60, { generator = g }):tolist()
    local many = ridge.rand(60, { generator = g }):tolist()
    for i = 1, 60 do
      at = at + 0.5 + (i < 6 and 20 or 2) * steps[i]
      middles[i], counts[i] = at, math.ceil(1000 * many[i] ^ 6)
    end
    if seed > 4 then -- nothing below 0
      for i = 60, 1, -1 do middles[i] = middles[i] - middles[1] + 0.5 end
    end
    cases[seed] = { bins(middles, counts, 0.5), middles, counts }
  end

  it('by mse is the one with the least squared error', function()
    for _, case in ipairs(cases) do
      local h, middles, counts = unpack(case)
      for dtype, ends in pairs { u8 = { 0, 255 }, i8 = { -127, 127 } } do
        local lo, hi = middles[1] - 0.25, middles[#middles] + 0.25
        local want = { best(lo, hi, function(a, b)
          local scale, zero = scheme.of(a, b, dtype)
          local sum = 0
          for i, x in ipairs(middles) do
            local code = math.min(ends[2], math.max(ends[1], code_of(x, scale, zero)))
            sum = sum + counts[i] * (x - (code - zero) * scale) ^ 2
          end
          return sum
        end) }
        assert.same(want, { ranges.mse(h, lo, hi, dtype) })
      end
    end
  end)

  it('by entropy is the one whose steps say most of how values lie', function()
    for _, case in ipairs(cases) do
      local h, middles, counts = unpack(case)
      for dtype, ends in pairs { u8 = { 0, 255 }, i8 = { -127, 127 } } do
        local lo, hi = middles[1] - 0.25, middles[#middles] + 0.25
        local want = { best(lo, hi, function(a, b)
          local scale, zero = scheme.of(a, b, dtype)
          local from, to = (ends[1] - zero - 0.5) * scale, (ends[2] - zero + 0.5) * scale
          local inner = {}
          for i, x in ipairs(middles) do if x >= from and x <= to then inner[#inner + 1] = i end end
          if #inner == 0 then return 1 / 0 end
          -- p: what is outside lies at the edges; q: the mass of a step, alike in its bins
          local p, mass, width, kept = {}, {}, {}, 0
          for _, i in ipairs(inner) do
            local code = code_of(middles[i], scale, zero)
            p[i], kept = counts[i], kept + counts[i]
            mass[code], width[code] = (mass[code] or 0) + counts[i], (width[code] or 0) + 1
          end
          for i = 1, inner[1] - 1 do p[inner[1]] = p[inner[1]] + counts[i] end
          for i = inner[#inner] + 1, #middles do p[inner[#inner]] = p[inner[#inner]] + counts[i] end
          local sum = 0
          for _, i in ipairs(inner) do
            local code = code_of(middles[i], scale, zero)
            local q = mass[code] / width[code] / kept
            sum = sum + p[i] / h.n * math.log(p[i] / h.n / q)
          end
          return sum
        end) }
        local got = { ranges.entropy(h, lo, hi, dtype) }
        assert.near(want[1], got[1], 1e-9)
        assert.near(want[2], got[2], 1e-9)
      end
    end
  end)
end)

describe('bins', function()
  local function filled(list, more)
    local h = histogram.new()
    for _, x in ipairs { list, more } do
      local t = ridge.tensor(x)
      h:add(t, t:abs():max():item())
    end
    local middles, counts, width = h:filled()
    return middles, counts, width, h
  end

  it('are 2048 on each side of a power of two that holds all', function()
    local middles, counts, width, h = filled { -4, -0.001, 0, 0.001, 0.0019, 0.002, 3.999, 4 }
    assert.equal(4 / 2048, width)
    assert.same({ 4 / 2048 * -2047.5, -0.5 * width, 0.5 * width, 1.5 * width, 2047.5 * width },
      middles)
    assert.same({ 1, 1, 3, 1, 2 }, counts)
    assert.equal(8, h.n)
    assert.equal(4 / 2048, (select(3, filled { 2.1 })))
    assert.equal(2 / 2048, (select(3, filled { 2 })))
  end)

  it('become one of two, on both sides of 0', function()
    local middles, counts, width = filled({ -1, -1 / 2048, 0, 1 / 2048, 2 / 2048, 3 / 2048 }, { 2 })
    assert.equal(2 / 2048, width)
    assert.same({ -1 + width / 2, -width / 2, width / 2, 1.5 * width, 2 - width / 2 }, middles)
    assert.same({ 1, 1, 2, 2, 1 }, counts)
  end)

  it('of zeros alone have no width, and nothing is nothing', function()
    local h = histogram.new()
    h:add(ridge.tensor {}, 0)
    assert.equal(0, h.n)
    h:add(ridge.zeros(3), 0)
    assert.same({ { 0 }, { 3 }, 0 }, { h:filled() })
    h:add(ridge.ones(2), 1)
    assert.same({ { 0.5 / 2048, 2047.5 / 2048 }, { 3, 2 }, 1 / 2048 }, { h:filled() })
  end)
end)

describe('an observer', function()
  local function of(kind) return observers.new(kind, { dtype = 'u8', percentile = 98 }, 'layer') end

  it('refuses what makes no range, by name and batch', function()
    assert.equal('layer: it never ran with the calibration data, so that nothing is known of what '
      .. 'comes in: name it in skip', failure(function() of('minmax'):range() end))
    local o = of 'minmax'
    o:add(ridge.full(2, { 3 }))
    o:add(ridge.tensor {})
    assert.equal(1, o.n)
    assert.equal('layer: everything that came in is 2: a constant has no range; name it in skip',
      failure(o.range, o))
    for _, bad in ipairs { 1 / 0, -1 / 0, 0 / 0 } do
      assert.equal('layer: what comes in has nan or inf in it, and no range (batch 2)',
        failure(o.add, o, ridge.tensor { 0, bad }))
    end
    o:add(ridge.tensor { 1, 3 })
    assert.same({ 1, 3 }, { o:range() })
  end)

  it('counts where its kind looks at how values lie', function()
    for kind, looks in pairs { minmax = false, average = false, percentile = true, entropy = true,
        mse = true } do
      assert.equal(looks, of(kind).h ~= nil, kind)
    end
    local o = of 'percentile'
    o:add(ridge.linspace(-1, -3, 100)) -- the largest magnitude is below 0
    assert.equal(100, o.h.n)
    assert.equal(4, o.h.most)
    assert.equal(0.98, o.share)
    local lo, hi = o:range()
    assert.is_true(lo > -3 and lo < -2.95 and hi < -1 and hi > -1.05)
  end)
end)

-- -- Groups, padding, pooling ---------------------------------------------------------------------

describe('groups of weights', function()
  it('take their bits and their part of scales', function()
    assert.equal(4.5, groups.bits_of { bits = 4, group = 32 })
    assert.equal(5, groups.bits_of { bits = 4, group = 32, minimum = true })
    assert.equal(8.125, groups.bits_of { bits = 8, group = 128 })
  end)

  it('need scales that f16 has', function()
    local function why(w, opts)
      opts.group = 32
      return groups.why_not(w, groups.round(w, opts), opts)
    end
    local above = 'a scale of its weights is above 65504, the largest number of f16'
    local below = 'a scale of its weights is below 2^-25, and in f16 nothing is left of it'
    local function row(x) return ridge.full(x, { 1, 32 }) end
    assert.is_nil(why(row(1), { bits = 4 }))
    assert.is_nil(why(row(65504 * 8), { bits = 4 }))
    assert.equal(above, why(row(65536 * 8), { bits = 4 }))
    assert.equal(above, why(row(65536), { bits = 4, minimum = true }))
    assert.equal(below, why(row(2 ^ -23), { bits = 4 })) -- its eighth
    assert.is_nil(why(row(2 ^ -21), { bits = 4 }))
    -- a minimum that is left holds a group alike; zeros are nothing that could be lost
    assert.is_nil(why(row(2 ^ -23), { bits = 4, minimum = true }))
    assert.is_nil(why(row(0), { bits = 4 }))
    -- beside a row of 1 it is nothing; beside one of 2^-14 it is not
    local two = ridge.concat({ row(2 ^ -23), row(1) }, 1)
    assert.is_nil(why(two, { bits = 4 }))
    two:narrow(1, 2, 1):fill_(2 ^ -14)
    assert.equal(below, why(two, { bits = 4 }))
  end)
end)

describe('padding', function()
  local function of(n, group, pad)
    return padding.of({ name = 'fc', module = { n_in = n } }, { group = group, pad = pad }, 'f')
  end

  it('fills the last group, where that is allowed', function()
    assert.equal(0, of(64, 32))
    assert.equal(0, of(64, 32, true))
    assert.equal(31, of(65, 32, true))
    assert.equal(1, of(63, 32, true))
    assert.equal('f: fc has 65 inputs, which do not fall into groups of 32: pad = true adds 31 '
      .. 'zeros, or name it in skip', failure(of, 65, 32))
  end)

  it('stands behind one axis', function()
    local x = ridge.ones(2, 3)
    assert.is_true(rawequal(x, padding.behind(x, 0, 2)))
    assert.same({ { 1, 1, 1, 0, 0 }, { 1, 1, 1, 0, 0 } }, padding.behind(x, 2, 2):tolist())
    assert.same({ { 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 } }, padding.behind(x, 1, 1):tolist())
  end)
end)

describe('pooling of bytes', function()
  it('is of poolings without padding, with their steps', function()
    assert.is_true(pool.fits(nn.MaxPool2d(2)))
    assert.is_false(pool.fits(nn.MaxPool2d(3, { padding = 1 })))
    assert.is_false(pool.fits(nn.MaxPool2d({ 3, 3 }, { padding = { 1, 0 } })))
    assert.is_false(pool.fits(nn.MaxPool2d({ 3, 3 }, { padding = { 0, 1 } })))
    assert.same({ stride = { 2, 3 }, layout = 'nchw' }, pool.MaxPool2d(nn.MaxPool2d { 2, 3 }).bytes)
    assert.same({ stride = { 1, 2 }, layout = 'nhwc' },
      pool.MaxPool2d(nn.MaxPool2d({ 2, 3 }, { stride = { 1, 2 }, layout = 'nhwc' })).bytes)
    assert.equal('quant.MaxPool2d(2x3, of bytes)', tostring(pool.MaxPool2d(nn.MaxPool2d { 2, 3 })))
  end)

  it('gives what pooling floats gives', function()
    local from = nn.MaxPool2d({ 2, 3 }, { stride = { 1, 2 } })
    local p, x = pool.MaxPool2d(from), ridge.randint(-100, 100, { 2, 3, 5, 7 })
    for _, dtype in ipairs { 'i8', 'u8' } do
      local bytes = dtype == 'u8' and (x + 100):to 'u8' or x:to 'i8'
      local y = p(bytes)
      assert.equal(dtype, y.dtype)
      assert.same(from(bytes:to 'f32'):tolist(), y:to('f32'):tolist())
    end
    assert.same(from(x:to 'f32'):tolist(), p(x:to 'f32'):tolist())
  end)
end)

-- -- Rounding for inputs --------------------------------------------------------------------------

describe('rounding for inputs that are told', function()
  local function moments(rows)
    local m = second_moment.new(#rows[1])
    m:add(ridge.tensor(rows))
    return m
  end

  it('by gptq damps with a hundredth of the mean of all moments', function()
    -- moments 10000, 100, 1; the second weight makes up for 0.4 of the first by 100 / (1 + 50.005)
    local found = gptq.round(ridge.tensor { { 0.4, -8 } }, moments { { 100, 1 } },
      { bits = 4, group = 2 })
    assert.same({ { 0, -7 } }, found.value:tolist())
    assert.same({ { 8, 1 } }, found.code:tolist())
    assert.same({ { 1 } }, found.scale:tolist())
    -- the other way round it makes up for 0.4 * 100 / (10000 + 50.005): nothing
    assert.same({ { 0, -8 } }, gptq.round(ridge.tensor { { 0.4, -8 } }, moments { { 1, 100 } },
      { bits = 4, group = 2 }).value:tolist())
  end)

  it('by awq has a factor where one is better, and none where all are alike', function()
    local w = ridge.randn(4, 32, { generator = ridge.generator(2) })
    local how = { bits = 3, group = 32 }
    local alike = awq.round(w, moments { ridge.ones(32):tolist() }, how)
    assert.is_nil(alike.factor)
    assert.same(groups.round(w, how).code:tolist(), alike.code:tolist())
    -- a column that hardly counts is the outermost of its group: without it others are finer
    w = ridge.full(0.3, { 1, 32 })
    w:narrow(2, 1, 1):fill_(-8)
    local inputs = ridge.ones(32)
    inputs:narrow(1, 1, 1):fill_(0.01)
    local m = moments { inputs:tolist() }
    local found = awq.round(w, m, how)
    assert.is_true(m:loss(found.value / found.factor - w) < 0.5 * m:loss(groups.round(w, how).value
      - w))
    assert.equal('f32', found.factor.dtype)
    -- the middle of the largest and the smallest is 1
    assert.near(1, found.factor:max():item() * found.factor:min():item(), 1e-5)
    assert.is_true(found.factor:tolist()[1] < 1 and found.factor:tolist()[2] > 1)
    -- one that never comes has no magnitude, and leaves the others their factors
    inputs:narrow(1, 1, 1):fill_(0)
    m = moments { inputs:tolist() }
    found = awq.round(w, m, how)
    assert.is_true(found.factor:isfinite():all():item() == 1)
    assert.is_true(m:loss(found.value / found.factor - w) < 0.5 * m:loss(groups.round(w, how).value
      - w))
  end)

  it('has moments as means, and magnitudes', function()
    local m = moments { { 1, -2 }, { 3, 4 } }
    assert.same({ { 5, 5 }, { 5, 10 } }, m:mean():tolist())
    assert.same({ 2, 3 }, m:magnitudes():tolist())
    m:add(ridge.tensor { { -5, 0 } })
    assert.same({ 3, 3 }, { m.n, m:magnitudes():tolist()[1] })
    assert.near(5 * 4 + 2 * 5 * 2 * 3 + 10 * 9, moments { { 1, -2 }, { 3, 4 } }:loss(
      ridge.tensor { { 2, 3 } }), 1e-9)
  end)
end)

describe('bytes with scales', function()
  it('are of each row by its largest', function()
    local q, scale = int8.of_rows(ridge.tensor { { 254, -127, 3, 0 }, { 0, 0, 0, 0 } })
    assert.same({ { 127, -64, 2, 0 }, { 0, 0, 0, 0 } }, q:to('f32'):tolist())
    assert.same({ { 2 }, { 2 ^ -126 } }, scale:tolist())
    assert.is_true(int8.is_finite(ridge.tensor { 1, -3 }))
    assert.is_true(int8.is_finite(ridge.tensor {}))
    for _, bad in ipairs { 0 / 0, 1 / 0, -1 / 0 } do
      assert.is_false(int8.is_finite(ridge.tensor { 1, bad }))
    end
  end)

  it('are the matrix that a layer multiplies by', function()
    local net = nn.Sequential(nn.Linear(33, 3, { seed = 1 })):eval()
    local w = net[1].weight
    local function off(q) return (q[1]:effective_weight() - w):abs():max():item() end
    assert.is_true(off(ridge.quant.dynamic(net, { rows = false })) < 1e-3)
    assert.is_true(off(ridge.quant.weights(net, { bits = 8, pad = true, rows = false })) < 2e-3)
    local data = ridge.data.Loader({ ridge.randn(8, 33) * ridge.tensor { 50, unpack(
      ridge.ones(32):tolist()) } }, { batch = 8 })
    local q = ridge.quant.weights(net, { bits = 8, pad = true, method = 'awq',
      calibrate = data, rows = false })
    assert.same({ 3, 33 }, q[1]:effective_weight():size())
    assert.is_true(off(q) < 4e-3)
    local x = ridge.ones(1, 33)
    assert.is_true((q(x) - net(x)):abs():max():item() < 0.1)
  end)
end)

-- -- What layers with a known range hold ----------------------------------------------------------

describe('a layer with a known range', function()
  local function filled(from, opts)
    local self = nn.Module()
    opts = opts or {}
    local why = fixed.fill(self, from, { per = opts.per or 'channel', name = 'fc',
      lo = opts.lo or 0, hi = opts.hi or 255, dtype = opts.dtype or 'u8' })
    return self, why
  end
  local function dense(weight, bias)
    local net = nn.Linear(#weight[1], #weight, { bias = bias ~= nil })
    ridge.no_grad(function()
      net.weight:copy_(ridge.tensor(weight))
      if bias then net.bias:copy_(ridge.tensor(bias)) end
    end)
    return net
  end

  it('counts its bias in steps of both scales', function()
    local self, why = filled(dense({ { 127, -64 }, { 254, 0 } }, { 10, 7 }))
    assert.is_nil(why)
    assert.same({ { 127, -64 }, { 127, 0 } }, self.weight:to('f32'):tolist())
    assert.same({ 1, 2 }, self.weight_scale:tolist())
    assert.same({ 10, 4 }, self.bias:to('f32'):tolist()) -- 3.5, to the even one
    assert.same({ 0, 'u8', 'f32', 1 }, { self.x_zero, self.x_dtype, self.answers,
      self.x_scale:item() })
    self = filled(dense({ { 127, -64 }, { 254, 0 } }, { 10, 7 }), { per = 'tensor', lo = -254,
      hi = 100, dtype = 'i8' })
    assert.same({ { 64, -32 }, { 127, 0 } }, self.weight:to('f32'):tolist()) -- 63.5: the even one
    assert.same({ 2 }, self.weight_scale:tolist())
    assert.same({ 2, 2 }, self.bias:to('f32'):tolist()) -- 2.5 and 1.75 steps of 2 * 2
    assert.is_nil(filled(dense({ { 1 } })).bias)
  end)

  it('answers in the type of what it was made from', function()
    for _, dtype in ipairs { 'f32', 'bf16', 'f16' } do
      assert.equal(dtype, (filled(dense({ { 1 } }):to(dtype))).answers)
    end
  end)

  it('has room in i32 beside the sums of its products', function()
    -- room is 2^31 - 1 - 255 * 128 n; steps are of 1
    local room = 2 ^ 31 - 1 - 255 * 128 * 2
    local at = math.floor(room / 256) * 256 -- f32 has steps of 128 there
    local self, why = filled(dense({ { 127, 127 } }, { at }))
    assert.is_nil(why)
    assert.equal(at, self.bias:item())
    self, why = filled(dense({ { 127, 127 } }, { at + 256 }))
    assert.is_nil(rawget(self, 'bias'))
    assert.matches('^its bias is 2.15e%+09 steps of the scales of input and weight, and sums in '
      .. 'i32 have room for 2.15e%+09$', why)
    assert.matches('^its bias is', (select(2, filled(dense({ { 127, 127 } }, { -at - 256 })))))
    -- a channel that died takes a coarser scale, and others keep theirs
    self, why = filled(dense({ { 127, 127 }, { 0, 0 } }, { 5, 1e12 }))
    assert.is_nil(why)
    assert.equal(1, self.weight_scale:tolist()[1])
    local scale, steps = self.weight_scale:tolist()[2], self.bias:to('f64'):tolist()
    assert.equal(5, steps[1])
    assert.near(1e12, scale * steps[2], 1e6)
    assert.is_true(steps[2] <= room and steps[2] > 0.99 * room)
    -- a row that is next to nothing, which is not one of a thousandth
    self, why = filled(dense({ { 127, 127 }, { 0.12, 0 } }, { 5, 1e9 }))
    assert.is_nil(why)
    assert.is_true(self.weight_scale:tolist()[2] > 0.4)
    assert.is_truthy(select(2, filled(dense({ { 127, 127 }, { 0.13, 0 } }, { 5, 1e9 }))))
    -- a sum of so many may be off by 2^-8 of its bias: 255 n / 2 room, where n is 32896.5
    for n, fits in pairs { [32896] = true, [32897] = false } do
      local first, next_to_none = {}, {}
      for k = 1, n do first[k], next_to_none[k] = 127, 0.12 end
      why = select(2, filled(dense({ first, next_to_none }, { 5, 1e12 })))
      assert.equal(fits, why == nil, n)
    end
    -- one scale for all: only where nothing else is in it
    assert.is_truthy(select(2, filled(dense({ { 127, 127 }, { 0, 0 } }, { 5, 1e12 }),
      { per = 'tensor' })))
    assert.is_nil(select(2, filled(dense({ { 0, 0 }, { 0, 0 } }, { 5, 1e12 }), { per = 'tensor' })))
  end)

  it('converts at both ends, unless bytes come and go', function()
    local a, b = filled(dense({ { 1 } })), (filled(dense({ { 1 } }), { lo = -128, hi = 127 }))
    assert.equal(2, fixed.conversions(a))
    fixed.hand_on(a, { dtype = b.x_dtype, zero = b.x_zero, scale = b.x_scale })
    b.fed = true
    assert.same({ dtype = 'u8', zero = 128 }, a.out)
    assert.equal(b.x_scale:item(), a.y_scale:item())
    assert.equal(1, fixed.conversions(a))
    assert.equal(1, fixed.conversions(b))
    fixed.hand_on(b, { dtype = a.x_dtype, zero = a.x_zero, scale = a.x_scale })
    assert.equal(0, fixed.conversions(b))
  end)
end)
