-- SPDX-License-Identifier: MIT
-- Masked nets for running: what is sparse computes the same, stays what it is, and is chosen where
-- it was faster.
local canonical = require 'ridge.store.canonical'
local faster = require 'ridge.quant.faster'
local ridge = require 'ridge'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function apart(a, b) return (a - b):abs():max():item() end

local function masked(opts)
  ridge.seed(9)
  local net = nn.Sequential(nn.Linear(48, 64, { activation = 'relu' }), nn.Linear(64, 10))
  return ridge.prune.magnitude(net, opts or { sparsity = 0.8, scope = 'layer' })
end

-- Measurements whose answer one knows: ratios of each format.
local function with_ratios(ratios, f)
  local asked = faster.asked
  local names = {}
  faster.asked = function()
    return { compare = function(_, key, _, after)
      names[#names + 1] = key
      local r = ratios[after.format] or 9
      return { ratio = r, lo = r - 0.02, hi = r + 0.02, keep = r < 1 }
    end }
  end
  local ok, a, b = pcall(f)
  faster.asked = asked
  assert.is_true(ok, tostring(a))
  return a, b, names
end

describe('prune.compact', function()
  local x = ridge.randn(5, 48, { generator = ridge.generator(2) })

  it('computes what the masked net does, in each format', function()
    local m = masked()
    local expected = ridge.inference(m, x)
    for _, format in ipairs { 'dense', 'rows', 'blocks' } do
      local c, report = ridge.prune.compact(m, { format = format })
      assert.is_true(apart(ridge.inference(c, x), expected) < 1e-5, format)
      assert.equal(format, report.layers[1].kind)
      assert.is_nil(c:state()['1.weight_mask'])
      assert.is_false(c.training)
    end
    local c = ridge.prune.compact(m, { format = 'blocks' })
    assert.is_true(apart(c[2]:effective_weight(), m[2].weight) == 0)
    assert.same({ 5, 10 }, c(x):size())
    assert.same({ 5, 3, 10 }, c(ridge.randn(5, 3, 48)):size())
    assert.equal('bf16', c[1](x:to 'bf16').dtype)
    assert.is_true(m.training)
    assert.equal('prune.SparseLinear', getmetatable(c:clone()[1]).__name)
  end)

  it('takes the format that is faster, and stays dense where none is shown to be', function()
    local c, report, asked = with_ratios({ rows = 0.5, blocks = 0.8 }, function()
      return ridge.prune.compact(masked())
    end)
    assert.equal('rows', c[1].format)
    assert.equal(0.5, report.layers[1].ratio)
    assert.equal(6, #asked)
    c, report = with_ratios({ rows = 0.99, blocks = 1.5 }, function()
      return ridge.prune.compact(masked())
    end)
    assert.equal('nn.Linear', getmetatable(c[1]).__name)
    assert.equal('dense', report.layers[1].kind)
    assert.truthy(report.layers[1].why:find('not shown to be faster: rows take 0.99', 1, true))
  end)

  it('keeps n of m where that is faster, and says which patterns have no kernel', function()
    local function wanted(pattern) return ridge.inference(masked { pattern = pattern }, x) end
    local net, c, report
    for _, pattern in ipairs { '2:4', '4:8', '1:4', '1:16' } do
      c, report = with_ratios({ rows = 0.8, blocks = 2, ['n:m'] = 0.5 }, function()
        return ridge.prune.compact(masked { pattern = pattern })
      end)
      assert.same({ 'n:m', pattern, 0.5 }, { report.layers[1].kind, report.layers[1].pattern,
        report.layers[1].ratio })
      assert.truthy(tostring(report):find(pattern, 1, true))
      assert.truthy(tostring(c[1]):find('weights in ' .. pattern, 1, true))
      assert.is_true(apart(ridge.inference(c, x), wanted(pattern)) < 1e-5)
      assert.same({ 5, 10 }, c(x):size()) -- 10 outputs of 16
      net = masked { pattern = pattern }
      assert.equal(0, apart(c[2]:effective_weight(), net[2].weight))
    end
    c, report = with_ratios({ rows = 3, blocks = 2, ['n:m'] = 1.2 }, function()
      return ridge.prune.compact(masked { pattern = '2:4' })
    end)
    assert.equal('dense', report.layers[1].kind)
    assert.truthy(report.layers[1].why:find('not shown to be faster: 2:4 take 1.20', 1, true))
    assert.is_true(apart(ridge.inference(c, x), wanted '2:4') < 1e-5)
    c, report = with_ratios({ rows = 3, blocks = 2, ['n:m'] = 0.1 }, function()
      return ridge.prune.compact(masked { pattern = '20:24', skip = { '2' } })
    end)
    assert.equal('infeasible', report.layers[1].kind)
    assert.truthy(tostring(report):find('pattern 20:24 has no kernel on CPUs', 1, true))
    assert.is_true(apart(ridge.inference(c, x), ridge.inference(masked { pattern = '20:24', skip =
      { '2' } }, x)) < 1e-5)
  end)

  it('finds n of m in zeros that no pattern was asked for, in the type of the weights', function()
    local net = nn.Sequential(nn.Linear(24, 20)):eval()
    local w = ridge.zeros(20, 24)
    for i = 1, 20 do w:narrow(1, i, 1):narrow(2, i, 3):fill_(i) end -- 3 in a row, over borders
    net[1].weight = w
    local c, report = ridge.prune.compact(net, { format = 'n:m' })
    assert.same({ 'n:m', '3:16' }, { report.layers[1].kind, report.layers[1].pattern })
    assert.equal(0, apart(c[1]:effective_weight(), w))
    c = ridge.prune.compact(net:clone():to 'bf16', { format = 'n:m' })
    assert.equal('bf16', c[1].values.dtype)
    assert.equal(0, apart(c[1]:effective_weight(), w))
    net[1].weight = ridge.ones(20, 24) - ridge.eye(20, 24)
    c, report = ridge.prune.compact(net, { format = 'n:m' })
    assert.equal('nn.Linear', getmetatable(c[1]).__name)
    assert.equal('dense', report.layers[1].kind)
    assert.truthy(report.layers[1].why:find('more than half of some 2, 4, 8 or 16 inputs', 1,
      true))
  end)

  it('says why layers stay dense', function()
    local net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(32, 4), nn.Linear(4, 4))
    local m = ridge.prune.magnitude(net, { sparsity = 0.5, scope = 'layer', skip = { '4' } })
    local _, report = ridge.prune.compact(m, { format = 'rows', skip = { '3' } })
    assert.equal('nn.Conv2d has no sparse kernel', report.layers[1].why)
    assert.equal('named in skip', report.layers[2].why)
    assert.equal('it has no zeros', report.layers[3].why)
    assert.truthy(failure(ridge.prune.compact, m, { skip = { '33' } }):find('no such module', 1,
      true))
  end)

  it('counts the bytes of offsets and columns', function()
    local m = masked()
    local _, report = ridge.prune.compact(m, { format = 'rows' })
    local kept = 48 * 64 - report.layers[1].zeros
    assert.equal((kept * 8 + 65 * 4 + 64 * 4) / 2 ^ 20, report.layers[1].mb.after)
    _, report = ridge.prune.compact(masked { pattern = '2:4' }, { format = 'n:m' })
    assert.equal(64 * 24 * 4.5 / 2 ^ 20 + 64 * 4 / 2 ^ 20, report.layers[1].mb.after)
  end)

  it('is not trained, and lets no gradient through', function()
    local c = ridge.prune.compact(masked(), { format = 'rows' })
    assert.truthy(failure(c.train, c):find('a sparse layer is not trained', 1, true))
    local wanted = ridge.randn(2, 48):requires_grad_()
    assert.truthy(failure(c, wanted):find('no gradient goes through', 1, true))
    assert.truthy(failure(c, ridge.randn(2, 47)):find('48 elements', 1, true))
  end)

  it('leaves what it is in out of training as a whole', function()
    local c = ridge.prune.compact(masked(), { format = 'rows', skip = { '2' } })
    local more = nn.Sequential(nn.Linear(48, 48), c):eval()
    assert.truthy(failure(more.train, more):find('a sparse layer is not trained', 1, true))
    assert.same({ false, false, false, false }, { more.training, more[1].training, c.training,
      c[2].training })
    assert.equal(more, more:train(false))
  end)

  it('keeps a layer that it has made, and says how that is kept', function()
    local c = ridge.prune.compact(masked { pattern = '2:4' }, { format = 'n:m', skip = { '2' } })
    local again, report = ridge.prune.compact(c, { format = 'rows' })
    assert.same({ 'n:m', '2:4', 0.5, 'it is kept in 2:4 already' }, { report.layers[1].kind,
      report.layers[1].pattern, report.layers[1].share, report.layers[1].why })
    assert.same({ 'n:m', 'rows' }, { again[1].format, again[2].format })
    assert.equal(0, apart(again[1](x), c[1](x)))
  end)
end)

describe('prune.analyze of sparse layers', function()
  -- of 64 x 48 and 10 x 64, the second of which lies in 16 outputs
  it('counts their zeros, and their bytes: numbers, places, offsets', function()
    for pattern, n in pairs { ['2:4'] = 8, ['1:4'] = 4, ['1:16'] = 1 } do
      for dtype, each in pairs { f32 = 4, bf16 = 2 } do
        local m = masked { pattern = pattern }:to(dtype)
        local before = ridge.prune.analyze(m)
        local c = ridge.prune.compact(m, { format = 'n:m' })
        local after = ridge.prune.analyze(c)
        assert.same({ before.zeros, before.weights, 0 }, { after.zeros, after.weights,
          after.masked })
        for i, sizes in ipairs { { 64, 3 }, { 16, 4 } } do
          local bytes = sizes[1] * (sizes[2] * n * each + math.ceil(sizes[2] * n / 2))
          assert.same({ bytes, bytes, pattern }, { after.layers[i].bytes.kept,
            after.layers[i].bytes.n_of_m, after.layers[i].kept })
          assert.equal(bytes, before.layers[i].bytes.n_of_m)
          assert.equal(before.layers[i].bytes.dense, before.layers[i].bytes.kept)
          local t = c:state()
          assert.equal(bytes, t[i .. '.values'].bytes + t[i .. '.index'].bytes)
        end
        assert.truthy(tostring(before):find('(' .. pattern .. ')', 1, true))
      end
    end
  end)

  it('counts numbers of rows and blocks in f32, whatever the type of the net', function()
    for format, name in pairs { rows = 'sparse', blocks = 'block' } do
      for _, dtype in ipairs { 'f32', 'bf16' } do
        local m = masked():to(dtype)
        local c = ridge.prune.compact(m, { format = format })
        local before, after = ridge.prune.analyze(m), ridge.prune.analyze(c)
        local t = c:state()
        -- of 64 outputs, so that no zeros are put behind them
        local bytes = t['1.values'].bytes + t['1.column'].bytes + t['1.offset'].bytes
        assert.same({ bytes, bytes, bytes }, { before.layers[1].bytes[name],
          after.layers[1].bytes.kept, after.layers[1].bytes[name] })
      end
    end
  end)
end)

describe('sparse layers on a device without kernels for them', function()
  local simulated = dofile 'tests/lua/simulated.lua'
  if not simulated.open() then
    return it('wants a simulated device', function() pending 'no nvcc: it was not built' end)
  end

  it('are infeasible, moved, looked at and refused with a sentence', function()
    local m = masked { pattern = '2:4' }
    for _, format in ipairs { 'auto', 'n:m', 'rows', 'blocks' } do
      local c, report = ridge.prune.compact(m:clone():to 'sim:0', { format = format })
      assert.same({ 'infeasible', 'sim:0 has no kernel for sparse weights' },
        { report.layers[1].kind, report.layers[1].why })
      assert.equal('nn.Linear', getmetatable(c[1]).__name)
    end
    local _, report = ridge.prune.compact(m:clone():to 'sim:0', { format = 'dense' })
    assert.equal('dense', report.layers[1].kind)
    for format, name in pairs { ['n:m'] = 'n_of_m_linear', rows = 'sparse_linear' } do
      local c = ridge.prune.compact(m, { format = format })
      local zeros = ridge.prune.analyze(c).zeros
      c:to 'sim:0'
      assert.truthy(failure(c, ridge.randn(2, 48):to 'sim:0'):find(name
        .. ': sim:0 has no kernel for it', 1, true))
      assert.equal('sim:0', c[1]:effective_weight().device)
      assert.equal(0, apart(c[1]:effective_weight():to 'cpu', m[1].weight))
      assert.equal(zeros, ridge.prune.analyze(c).zeros)
    end
    assert.truthy(failure(ridge.sparse, m[1].weight:to 'sim:0', { pattern = '2:4' }):find(
      "w is on sim:0, which has no kernel for sparse weights: give w:to 'cpu'", 1, true))
  end)
end)

describe('files of pruned nets', function()
  local path = os.tmpname() .. '.safetensors'
  local x = ridge.randn(3, 48, { generator = ridge.generator(3) })
  after_each(function() os.remove(path) end)

  it('keep masks, so that training goes on', function()
    local m = masked()
    m:save(path)
    local c = nn.load(path)
    assert.is_true(apart(c(x), m(x)) == 0)
    local optimizer = ridge.optim.AdamW(c, { lr = 0.1 })
    for _ = 1, 3 do
      optimizer:zero_grad()
      c(x):square():sum():backward()
      optimizer:step()
    end
    assert.equal(ridge.prune.analyze(m).zeros, ridge.prune.analyze(c).zeros)
    assert.equal(2, ridge.prune.analyze(c).masked)
    assert.is_true(apart(c[1].weight, m[1].weight) > 0.01)
  end)

  it('keep sparse layers', function()
    for format, m in pairs { blocks = masked(), ['n:m'] = masked { pattern = '2:4' } } do
      local c = ridge.prune.compact(m, { format = format })
      c:save(path)
      local again = nn.load(path)
      assert.is_true(apart(again(x), c(x)) == 0)
      assert.equal(format, again[1].format)
      assert.equal(tostring(c), tostring(again))
    end
  end)

  it('keep shrunk convolutions', function()
    local net = nn.Sequential(nn.Conv2d(2, 8, 3, { padding = 1 }), nn.ReLU(),
      nn.Conv2d(8, 8, 3, { padding = 1, groups = 8 }), nn.Flatten(), nn.Linear(128, 3)):eval()
    local images = ridge.randn(2, 2, 4, 4)
    local small = ridge.prune.shrink(net, images, { share = 0.5, time = false, control = false })
    assert.same({ 'number', 'number', 4 }, { type(small[1].n_in), type(small[3].n_in),
      small[3].n_in })
    small:save(path)
    assert.equal(0, apart(nn.load(path)(images), small(images)))
  end)

  it('are refused where a mask does not fit', function()
    local m = masked()
    m:save(path)
    local file = assert(io.open(path, 'rb'))
    local text = file:read '*a'
    file:close()
    local changed, n = text:gsub('(_masks[^%w]+)weight', '%1weighx', 1)
    assert.equal(1, n)
    file = assert(io.open(path, 'wb'))
    file:write(changed)
    file:close()
    assert.truthy(failure(nn.load, path):find("has no mask for 'weighx'", 1, true))
  end)

  -- What is said of a file in which a thing was changed: its fields of modules by class, tensors.
  local function said_of(net, change)
    net:save(path)
    local tensors, notes = ridge.load(path)
    local tree = canonical.decode(notes['ridge.model'])
    local fields = {}
    for _, record in ipairs(tree.modules) do
      fields[record.class] = fields[record.class] or record.fields
    end
    change(fields, tensors)
    ridge.save(path, tensors, { ['ridge.model'] = canonical.encode(tree) })
    local ok, made = pcall(nn.load, path)
    return ok or tostring(made):gsub('^.*: nn%.load: ', ''), made
  end

  it('have the patterns of n:m that they claim', function()
    local c = ridge.prune.compact(masked { pattern = '2:4' }, { format = 'n:m' })
    local function with(pattern)
      return said_of(c, function(fields) fields['prune.SparseLinear'].pattern = pattern end)
    end
    local of = path .. ': tensor 1.values of a prune.SparseLinear has not the pattern '
    assert.is_true(with '2:4')
    assert.is_true(with '4:8') -- which each 2:4 is
    assert.equal(of .. '1:2: more than 1 of 2 inputs that follow each other are not 0', with '1:2')
    assert.equal(of .. '1:4: f32[4,24,16] is not of 12 entries for each of 16 outputs', with '1:4')
    assert.equal(of .. "2:3: there is no pattern '2:3'", with '2:3')
    assert.equal(of .. 'nil: there is no pattern nil', with(nil))
    -- the first four entries of a window, all among its first four inputs
    assert.equal(of .. '2:4: more than 2 of 4 inputs that follow each other are not 0',
      said_of(c, function(_, tensors)
        for entry, two in ipairs { 0x10, 0x32 } do
          local places = tensors['1.index']:narrow(2, entry, 1)
          places:copy_(ridge.full(two, unpack(places:size())):to 'u8')
        end
      end))
    local cut = said_of(c, function(_, tensors)
      tensors['1.index'] = tensors['1.index']:narrow(2, 1, 2):contiguous()
    end)
    assert.equal(1, cut:find(of .. '2:4: ', 1, true))
    assert.truthy(cut:find('index', 1, true), cut)
  end)

  it('have masks of the pattern that they claim', function()
    local m = masked { pattern = '2:4', skip = { '2' } }
    local function filled(at)
      return function(_, tensors)
        local row = tensors['1.weight_mask']:narrow(1, 5, 1)
        row:narrow(2, at, 3):copy_(ridge.ones(1, 3):to 'bool')
      end
    end
    assert.is_true(said_of(m, function() end))
    assert.equal(path .. ': tensor 1.weight_mask of a nn.Linear has not the pattern 2:4: more '
      .. 'than 2 of 4 inputs that follow each other stay', said_of(m, filled(9)))
    -- no claim: of masks of single weights, of a layer that was left, of one without a mask
    assert.is_true(said_of(masked { sparsity = 0.5 }, filled(9)))
    assert.is_true(said_of(m, function(fields, tensors)
      fields['nn.Sequential']._prune.why['1'] = 'named in skip'
      filled(9)(nil, tensors)
    end))
    local baked = ridge.prune.compact(m, { format = 'dense' })
    baked[1].weight:copy_(ridge.ones(64, 48))
    assert.is_true(said_of(baked, function() end))
    -- what is no pattern is none, wherever it is asked for
    local ok, made = said_of(m, function(fields) fields['nn.Sequential']._prune.pattern = 17 end)
    assert.is_true(ok)
    assert.is_nil(ridge.prune.analyze(made).pattern)
    assert.equal(2, #select(2, ridge.prune.compact(made, { format = 'dense' })).layers)
  end)
end)
