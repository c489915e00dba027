-- SPDX-License-Identifier: MIT
-- What an analysis is asked: roofs, bottlenecks, what the net would be otherwise.

local ffi = require 'ffi'
local ridge = require 'ridge'
local nn = ridge.nn

ffi.cdef 'int setenv(const char *, const char *, int); int unsetenv(const char *);'

local COUNTED = { rounds = 0, roof = false }

describe('the roof of a layer', function()
  local rows = { { name = 'fma.f32', value = 1e9 }, { name = 'bw.l1', value = 1e12 },
    { name = 'bw.l2', value = 1e12 }, { name = 'bw.llc', value = 1e12 },
    { name = 'bw.dram', value = 1e9 } }

  it('is the least time of its operations by the ceilings', function()
    local net = nn.Sequential(nn.Linear(64, 32), nn.ReLU()):eval()
    local a = net:analyze(ridge.randn(16, 64), { rounds = 3, roof = rows })
    local linear, relu = a.layers[2], a.layers[3]
    assert.equal('compute', linear.roof)
    assert.near(2 * 16 * 32 * 64 / 1e9 * 1e3, linear.roof_ms, 1e-12)
    assert.near(linear.roof_ms / linear.ms, linear.roof_share, 1e-12)
    assert.near(16 * 32 / 1e9 * 1e3, relu.roof_ms, 1e-12)
    assert.matches('of roof', tostring(a))
    assert.matches('compute', tostring(a))
    assert.is_nil(net:analyze(ridge.randn(16, 64), COUNTED).layers[2].roof)
  end)

  it('is taken from the ceilings of this machine in the database', function()
    local path, before = os.tmpname(), os.getenv 'RIDGE_DB'
    os.remove(path)
    ffi.C.setenv('RIDGE_DB', path, 1)
    local ok, err = pcall(function()
      local net, x = nn.Linear(64, 32):eval(), ridge.randn(16, 64)
      local none = net:analyze(x, { rounds = 0 })
      assert.is_nil(none.layers[1].roof) -- there is no database, and none is made
      assert.is_nil(io.open(path))
      local kept = {}
      for i, row in ipairs(rows) do
        kept[i] = { name = row.name, value = row.value, threads = ridge.num_threads(), unit = '1/s',
          ci_lo = row.value, ci_hi = row.value }
      end
      require('ridge.sweep.calibrated').keep(kept)
      assert.equal('compute', net:analyze(x, { rounds = 0 }).layers[1].roof)
      os.remove(path)
      local file = io.open(path, 'w')
      file:write(('no database\n'):rep(100))
      file:close()
      local a = net:analyze(x, { rounds = 0 })
      assert.is_nil(a.layers[1].roof)
      assert.matches('^no roofs: .*no SQLite file', a.notes[1])
    end)
    os.remove(path)
    if before then ffi.C.setenv('RIDGE_DB', before, 1) else ffi.C.unsetenv 'RIDGE_DB' end
    if not ok then error(err, 0) end
  end)

  it('is that of memory where that takes longer', function()
    local slow = {}
    for i, row in ipairs(rows) do
      slow[i] = { name = row.name, value = row.name:find '^bw' and 1e6 or row.value }
    end
    local net = nn.Sequential(nn.Linear(64, 32)):eval()
    local a = net:analyze(ridge.randn(16, 64), { rounds = 0, roof = slow })
    local bytes = 4 * (16 * 64 + 64 * 32 + 32 + 16 * 32)
    assert.equal(bytes, a.layers[2].traffic_bytes)
    assert.near(bytes / 1e6 * 1e3, a.layers[2].roof_ms, 1e-9)
    assert.is_true(a.layers[2].roof == 'L1' or a.layers[2].roof == 'L2')
  end)
end)

describe('bottlenecks', function()
  -- An analysis with these times.
  local function timed(...)
    local layers, list, total = {}, { ... }, 0
    for i = 1, #list do layers[i] = nn.ReLU() end
    local net = nn.Sequential(unpack(layers)):eval()
    local a = net:analyze(ridge.randn(3), { rounds = 1, roof = false })
    for _, ms in ipairs(list) do total = total + ms end
    for i, layer in ipairs(a.layers) do
      layer.ms, layer.backward_ms = i > 1 and list[i - 1] or 0, 0
      layer.share = layer.ms / total
    end
    return a
  end

  local function told(list)
    local out = {}
    for i, b in ipairs(list) do out[i] = ('%s %g %s'):format(b.name, b.ms, tostring(b.over)) end
    return out
  end

  it('are the three longest, or all over a share', function()
    local a = timed(10, 50, 1, 25, 14)
    assert.same({ '2 50 true', '4 25 true', '5 14 false' }, told(a:find_bottlenecks()))
    assert.same({ '2 50 true', '4 25 true' }, told(a:find_bottlenecks { over = 0.2 }))
    assert.same({ '2 50 true' }, told(a:find_bottlenecks { top = 1 }))
    assert.equal(5, #a:find_bottlenecks { top = 2 ^ 31 })
    for _, top in ipairs { 0, 2 ^ 31 + 1, 1.5 } do
      local ok, err = pcall(a.find_bottlenecks, a, { top = top })
      assert.is_false(ok)
      assert.matches('top is ', tostring(err))
    end
    assert.same({ '2 50 true', '4 25 true', '5 14 true', '1 10 true' },
      told(a:find_bottlenecks { over = 0.05 }))
    assert.same({ '2 50 true', '4 25 true' }, told(a:find_bottlenecks { over = 0.05, top = 2 }))
    assert.matches('50.0 %% +over 20.0 %%', tostring(a:find_bottlenecks()))
    assert.matches('no layer takes over 90.0 %%', tostring(a:find_bottlenecks { over = 0.9 }))
  end)

  it('hold the least time of both passes against what they took', function()
    local a = timed(10, 50, 1, 25, 14)
    a.layers[3].roof, a.layers[3].roof_ms, a.layers[3].backward_roof_ms = 'f', 4, 6
    a.layers[5].roof, a.layers[5].roof_ms = 'f', 5
    a.layers[3].ms, a.layers[3].backward_ms = 20, 30
    local list = a:find_bottlenecks()
    assert.same({ '2', 50, 0.2, 0.2 }, { list[1].name, list[1].ms, list[1].roof_share,
      list[2].roof_share })
    assert.is_nil(list[3].roof_share)
  end)

  it('are found in a net that has one', function()
    local net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3000), nn.Linear(3000, 4))
    local list = net:analyze(ridge.randn(64, 16), { rounds = 5, roof = false }):find_bottlenecks()
    assert.is_true(list[1].name == '3' or list[1].name == '4')
    assert.is_true(list[1].ms >= list[2].ms and list[2].ms >= list[3].ms)
    assert.equal(list.longest, list[1])
  end)
end)

describe('what if', function()
  local function same(measured, computed, tolerance)
    for _, field in ipairs { 'bytes', 'flops', 'other_flops', 'backward_flops' } do
      assert.equal(measured[field], computed[field])
    end
    assert.near(1, computed.saved_bytes / measured.saved_bytes, tolerance)
  end

  local function pairs_of(lines)
    assert.is_true(#lines > 0 and #lines % 2 == 0)
    for i = 1, #lines, 2 do
      local c, m = lines[i], lines[i + 1]
      assert.same({ 'computed', 'measured' }, { c.how, m.how })
      assert.same({ c.batch, c.dtype, c.recompute }, { m.batch, m.dtype, m.recompute })
      assert.is_nil(c.step_ms)
      assert.is_true(m.step_ms > 0 and m.ms > 0 and m.rounds == 2)
    end
    return lines
  end

  local function blocks()
    local function block() return nn.TransformerBlock(8, { heads = 2, causal = true }) end
    return nn.Sequential(block(), block(), block(), nn.Linear(8, 3))
  end

  it('at other batches is what it is there', function()
    local a = blocks():analyze(ridge.randn(4, 6, 8), COUNTED)
    local lines = pairs_of(a:what_if { batch = { 1, 4, 24 }, measure = true, rounds = 2 })
    assert.equal(6, #lines)
    for i = 1, 6, 2 do same(lines[i + 1], lines[i], 1e-9) end
    assert.equal(24 / 4 * a.flops, lines[5].flops)
    assert.matches('computed.*measured', tostring(lines))
  end)

  it('has times where it was run, forward and of the whole step, and else none', function()
    local a = blocks():analyze(ridge.randn(4, 6, 8), { rounds = 4, roof = false })
    assert.is_true(a.step_ms > 0)
    local lines = a:what_if { batch = { 8 }, measure = true, rounds = 4 }
    assert.same({ 'computed', 'measured' }, { lines[1].how, lines[2].how })
    assert.same({}, { lines[1].ms, lines[1].step_ms })
    assert.is_true(lines[2].ms > 0 and lines[2].ms < lines[2].step_ms)
  end)

  it('along another axis is that axis of the inputs, and not their first', function()
    local Product = nn.class 'Product'
    function Product:init() self:param('weight', ridge.randn(7, 4)) end
    function Product:forward(x) return x:matmul(self.weight) end
    local net = Product()
    for _, sizes in ipairs { { 5, 3 }, { 3, 5 }, { 4, 4 } } do
      local a = net:analyze(ridge.randn(sizes[1], sizes[2], 7), COUNTED)
      local lines = pairs_of(a:what_if { batch = { 1, 6 }, batch_axis = 2, measure = true,
        rounds = 2 })
      assert.equal(2 * sizes[1] * 1 * 7 * 4, lines[1].flops)
      assert.equal(2 * sizes[1] * 6 * 7 * 4, lines[3].flops)
      for i = 1, 4, 2 do same(lines[i + 1], lines[i], 1e-9) end
      assert.equal(sizes[2], a:what_if({ batch_axis = 2 })[1].batch)
    end
    local a = net:analyze(ridge.randn(5, 7), COUNTED)
    local ok, err = pcall(a.what_if, a, { batch = 2, batch_axis = 3 })
    assert.is_false(ok)
    assert.matches('no input of the net has an axis 3', tostring(err))
    a = net:analyze(ridge.randn(0, 7), COUNTED)
    ok, err = pcall(a.what_if, a, { batch = 2 })
    assert.is_false(ok)
    assert.matches('no rows', tostring(err))
  end)

  it('of a module in several places counts what goes in at each of them', function()
    local linear = nn.Linear(8, 8)
    local function block() return nn.Sequential(nn.Linear(8, 8), nn.ReLU()) end
    local twice = block()
    for _, net in ipairs { nn.Sequential(linear, nn.Tanh(), linear),
      nn.Sequential(linear, nn.Tanh(), linear, nn.Tanh(), linear), -- parts begin with one of three
      nn.Sequential(twice, twice), nn.Sequential(twice, block(), twice) } do
      local lines = pairs_of(net:analyze(ridge.randn(6, 8), COUNTED):what_if { recompute = true,
        measure = true, rounds = 2 })
      same(lines[4], lines[3], 1e-9)
    end
  end)

  it('in other types holds half, and in f64 twice', function()
    local a = blocks():analyze(ridge.randn(4, 6, 8), COUNTED)
    local lines = pairs_of(a:what_if { dtype = { 'bf16', 'f64' }, measure = true, rounds = 2 })
    assert.equal(a.bytes / 2, lines[1].bytes)
    assert.equal(a.bytes * 2, lines[3].bytes)
    -- what normalisation and attention keep of each row is f32, whatever the type
    assert.near(1, lines[1].saved_bytes / lines[2].saved_bytes, 0.1)
    assert.near(1, lines[3].saved_bytes / lines[4].saved_bytes, 0.1)
    assert.equal('f32', a._job.net:parameters()[1].tensor.dtype)
  end)

  it('in other types keeps indices for the backward pass as they are', function()
    local net = nn.Sequential(nn.Embedding(13, 8), nn.Linear(8, 5))
    local a = net:analyze(ridge.zeros(4, 3):to 'i32', COUNTED)
    local lines = a:what_if { dtype = { 'f32', 'bf16' } }
    assert.same({ 12 * 4 + 12 * 8 * 4, 12 * 4 + 12 * 8 * 2 },
      { lines[1].saved_bytes, lines[2].saved_bytes })
  end)

  it('in other types leaves the bytes of what is whole', function()
    local Mixed = nn.class 'Mixed'
    function Mixed:init()
      self:param('weight', ridge.ones(3))
      self:buffer('table', ridge.zeros(4, { dtype = 'i64' }))
    end
    function Mixed:forward(x) return x * self.weight end
    local a = Mixed():analyze(ridge.ones(2, 3), COUNTED)
    local bytes = {}
    for i, line in ipairs(a:what_if { dtype = { 'f32', 'bf16', 'f64' } }) do
      bytes[i] = line.bytes
    end
    assert.same({ 12 + 32, 6 + 32, 24 + 32 }, bytes)
  end)

  it('with recomputation keeps the inputs of blocks, and computes them once more', function()
    local net = blocks()
    local a = net:analyze(ridge.randn(4, 6, 8), COUNTED)
    local lines = pairs_of(a:what_if { recompute = true, measure = true, rounds = 2 })
    same(lines[2], lines[1], 1e-9)
    same(lines[4], lines[3], 0.05)
    assert.is_true(lines[4].saved_bytes < lines[2].saved_bytes / 3)
    assert.equal(a.flops - 2 * 4 * 6 * 8 * 3, lines[4].backward_flops - lines[2].backward_flops)
    -- inputs of blocks are of the net's type, and as much smaller as it
    local narrow = pairs_of(a:what_if { recompute = true, dtype = 'bf16', measure = true,
      rounds = 2 })
    assert.equal(lines[3].saved_bytes / 2, narrow[3].saved_bytes)
    assert.equal(narrow[4].saved_bytes, narrow[3].saved_bytes)
    assert.is_nil(net[1].recomputes) -- it is switched back
    assert.equal(a.saved_bytes, net:analyze(ridge.randn(4, 6, 8), COUNTED).saved_bytes)
  end)

  it('says where there is nothing to recompute, nor a batch', function()
    local a = nn.Linear(4, 4):analyze(ridge.randn(2, 4), COUNTED)
    local lines = a:what_if { recompute = true }
    assert.equal(1, #lines)
    assert.equal('nothing is recomputed: the net has no chain of modules of which to keep only the '
      .. 'inputs', lines.notes[1])
    assert.matches('nothing is recomputed', tostring(lines))
    local forward = nn.Linear(4, 4):analyze(ridge.randn(2, 4), { rounds = 0, roof = false,
      backward = false })
    assert.equal('nothing is recomputed: there is no backward pass',
      forward:what_if({ recompute = true }).notes[1])
    local One = nn.class 'One'
    function One:init() self:param('weight', ridge.ones(3)) end
    function One:forward() return self.weight * 2 end
    local b = One():analyze(nil, COUNTED)
    assert.is_nil(b.batch)
    local ok, err = pcall(b.what_if, b, { batch = 3 })
    assert.is_false(ok)
    assert.matches('no tensor that has rows', tostring(err))
    assert.equal(1, #b:what_if { dtype = 'bf16' })
  end)
end)
