-- SPDX-License-Identifier: MIT
-- Nets as files: what was saved computes the same bits when it is loaded, and no file does more.
local ridge = require 'ridge'
local canonical = require 'ridge.store.canonical'
local nn = ridge.nn

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local path

local function again(net)
  net:save(path)
  return nn.load(path)
end

local function images()
  return nn.Sequential(nn.Conv2d(2, 4, 3, { padding = { 1, 0 }, stride = 2, seed = 1 }),
    nn.BatchNorm(4), nn.ReLU({ inplace = true }), nn.MaxPool2d(2, { stride = 1 }), nn.Flatten(),
    nn.Dropout(0.3), nn.Linear(24, 5, { seed = 2, activation = 'gelu' }))
end

local function loader(x) return ridge.data.Loader({ x }, { batch = 8, shuffle = false }) end

describe('a net in a file', function()
  before_each(function() path = os.tmpname() .. '.safetensors' end)
  after_each(function() os.remove(path) end)

  it('computes the same bits in the mode it was in', function()
    local x = ridge.randn(16, 2, 8, 8)
    local net = images()
    net(x)
    net[7]:freeze()
    assert.is_true(again(net).training)
    net:eval()
    local made = again(net)
    assert.same(net(x):tolist(), made(x):tolist())
    assert.is_false(made.training or made[2].training)
    for i, p in ipairs(net:parameters()) do
      local q = made:parameters()[i]
      assert.same({ p.name, p.trainable }, { q.name, q.trainable })
      assert.is_not.equal(p.tensor._t, q.tensor._t)
    end
    made:train()
    assert.is_true(made[1].weight.requires_grad)
    assert.is_false(made[7].weight.requires_grad)
    assert.is_true(made[7]:freeze(false).weight.requires_grad)
  end)

  it('keeps what is shared shared, and fields that hold children', function()
    local twice = nn.Linear(4, 4, { seed = 1 })
    local net = nn.Sequential(twice, nn.Linear(4, 4, { seed = 2 }), twice)
    net[2].weight = twice.weight
    local made, in_file = again(net), 0
    for _ in pairs((ridge.load(path))) do in_file = in_file + 1 end
    assert.equal(3, in_file) -- one weight, two biases
    assert.equal(made[1], made[3])
    assert.equal(made[1].weight._t, made[2].weight._t)
    local block = nn.TransformerBlock(8, { heads = 2, seed = 3 }):eval()
    local x = ridge.randn(2, 5, 8)
    assert.same(block(x):tolist(), again(block)(x):tolist())
    local lstm = nn.LSTM(3, 4, { layers = 2, bidirectional = true, seed = 1 })
    assert.same(lstm(ridge.ones(1, 4, 3)):tolist(), again(lstm)(ridge.ones(1, 4, 3)):tolist())
  end)

  it('keeps quantized nets: bytes, scales, zero points and reports', function()
    local x = ridge.randn(32, 2, 8, 8)
    local net = images()
    net(x)
    net:eval()
    for _, q in ipairs { ridge.quant.dynamic(net, { rows = false }), ridge.quant.half(net),
      ridge.quant.static(net, { calibrate = loader(x), rows = false }),
      ridge.quant.weights(net, { bits = 4, pad = true, minimum = true, rows = false }) } do
      local made = again(q)
      assert.same(q(x):tolist(), made(x):tolist())
      assert.equal(q:num_bytes(), made:num_bytes())
      assert.equal(tostring(ridge.quant.report(q)), tostring(ridge.quant.report(made)))
      assert.equal(tostring(q), tostring(made))
      assert.matches('not trained', failure(made.train, made))
      assert.matches('quantized already', failure(ridge.quant.dynamic, made))
    end
  end)

  it('refuses what no file can name', function()
    local Own = nn.class 'nn.Linear'
    function Own:init() self:param('weight', ridge.ones(2)) end
    function Own:forward(x) return x * self.weight end
    local net = nn.Sequential(Own())
    assert.matches("model_file_spec.lua:%d+: save: nn.Linear is no class of ridge's own",
      failure(net.save, net, path))
    local layer = nn.Linear(2, 2)
    layer.note = print
    assert.matches('in its field note, which has no form', failure(layer.save, layer, path))
    local masked = nn.Linear(2, 2):parametrize('weight', { forward = function(w) return w * 2 end })
    assert.matches('parametrised', failure(masked.save, masked, path))
    assert.matches('a path', failure(layer.save, layer, 3))
    assert.is_nil((io.open(path)))
  end)

  local function with_tree(change, net)
    net = net or nn.Sequential(nn.Conv2d(1, 1, 1, { seed = 1 }), nn.Linear(2, 2, { seed = 1 }),
      nn.ReLU())
    net:save(path)
    local tensors, notes = ridge.load(path)
    local tree = canonical.decode(notes['ridge.model'])
    local text = change(tree, tensors)
    local function listed(v) -- a decoded list is written as one again
      if type(v) ~= 'table' then return v end
      local out = {}
      for k, each in pairs(v) do out[k] = listed(each) end
      return #out > 0 and canonical.list(out) or out
    end
    for _, m in ipairs(tree.modules or {}) do
      for _, name in ipairs { 'params', 'children' } do
        if type(m) == 'table' and m[name] and #m[name] == 0 then m[name] = canonical.list {} end
      end
    end
    ridge.save(path, tensors, { ['ridge.model'] = text or canonical.encode(listed(tree)) })
    return failure(nn.load, path)
  end

  it('names what is wrong in a damaged file, and runs nothing', function()
    ridge.save(path, { w = ridge.ones(2) })
    assert.matches('model_file_spec.lua:%d+: nn.load: .*holds tensors and no net',
      failure(nn.load, path))
    assert.matches('tree of its modules is damaged', with_tree(function() return '{' end))
    assert.matches('format 2', with_tree(function(t) t.format = 2 end))
    assert.matches("no class 'os.execute'", with_tree(function(t)
      t.modules[2].class = 'os.execute'
    end))
    assert.matches('no class', with_tree(function(t) t.modules[2].class = 'nn.cross_entropy' end))
    assert.matches("has no field 'forward'", with_tree(function(t)
      t.modules[2].fields.forward = 'x'
    end))
    assert.matches("has no field '__index'", with_tree(function(t)
      t.modules[2].fields.__index = 'x'
    end))
    assert.matches('no tensor', with_tree(function(_, tensors) tensors['1.weight'] = nil end))
    assert.matches('no module 9', with_tree(function(t) t.modules[1].children[1].module = 9 end))
    assert.matches('itself', with_tree(function(t) t.modules[1].children[1].module = 1 end))
    assert.matches('is called', with_tree(function(t) t.modules[1].children[1].name = 'x' end))
    assert.matches('wanted a whole number', with_tree(function(t)
      t.modules[2].fields.options.groups = 'x'
    end))
    assert.matches("no struct 'rg_tensor'", with_tree(function(t)
      t.modules[2].fields.options['$struct'] = 'rg_tensor'
    end))
    assert.matches("nn.ReLU has no method 'release'", with_tree(function(t)
      t.modules[4].fields.method = 'release'
    end))
  end)

  it('names what is wrong in the fields of a layer', function()
    local net = nn.Sequential(nn.Linear(3, 2, { activation = 'relu' }), nn.BatchNorm(2),
      nn.Dropout(0.5), nn.LSTM(2, 2))
    local function refused(at, name, value)
      assert.matches(('nn.load: .*the field %s of a nn%%.%%a+ is missing'):format(name),
        with_tree(function(t) t.modules[at].fields[name] = value end, net))
    end
    for _, act in ipairs { 'x', 1e6, 0.5, 0, false } do refused(2, 'act', act) end
    refused(2, 'act', nil)
    refused(2, 'activation', 'bogus')
    refused(2, 'p', 'x')
    refused(2, 'n_in', nil)
    refused(3, 'eps', 'x')
    refused(3, 'momentum', {})
    refused(3, 'layout', 'hwc')
    refused(4, 'p', -1)
    refused(5, 'layers', 'x')
  end)

  it('names what is wrong in a quantized layer of a file', function()
    local x = ridge.randn(16, 32)
    local net = nn.Sequential(nn.Linear(32, 8, { seed = 1 }), nn.Linear(8, 4, { seed = 2 })):eval()
    local static = ridge.quant.static(net, { calibrate = loader(x), rows = false })
    local packed = ridge.quant.weights(nn.Sequential(nn.Linear(32, 4)):eval(), { bits = 4,
      rows = false })
    local function refused(q, pattern, change)
      assert.matches(pattern, with_tree(function(t, tensors)
        change(t.modules[2].fields, t.modules[1].fields, tensors, t.modules[2])
      end, q))
    end
    local function field(q, name, ...)
      for _, value in ipairs { ... } do
        refused(q, 'the field ' .. name .. ' of a quant%.%u', function(f) f[name] = value end)
      end
    end
    field(static, 'activation', 'bogus', 3)
    field(static, 'n_in', -1, 1.5, 'x')
    field(static, 'x_zero', 256, -1, 0.5, 'x')
    field(static, 'x_dtype', 'f32', 3)
    field(static, 'out', 'u8', { dtype = 'f32', zero = 0 }, { dtype = 'u8', zero = 300 })
    field(packed, 'bits', 5, 'x')
    field(packed, 'group', 33, 0)
    field(packed, 'padding', -32, 1e15)
    for _, name in ipairs { 'x_scale', 'y_scale', 'weight' } do
      refused(static, 'the tensor ' .. name .. ' of a quant.Linear', function(_, _, _, record)
        for i, p in ipairs(record.params) do
          if p.name == name then
            table.remove(record.params, i)
            break
          end
        end
      end)
    end
    refused(static, 'the tensor x_scale', function(_, _, tensors)
      tensors['1.x_scale'] = ridge.ones(2)
    end)
    for name, value in pairs { rows = 5, notes = { 3 }, method = 3 } do
      refused(static, 'the field _quant of a nn.Sequential', function(_, root)
        root._quant[name] = value
      end)
    end
    refused(ridge.quant.half(net), 'the field _quant', function(_, root)
      root._quant.dtype = 'i8'
    end)
    refused(static, 'quantized is in training mode', function(f) f.training = true end)
    local meet = nn.Sequential(nn.Linear(32, 8, { seed = 1 }), nn.Residual(nn.Linear(8, 8,
      { seed = 2 })), nn.Concat(2, nn.Dropout(0.5), nn.Linear(8, 4, { seed = 3 })),
      nn.Linear(12, 4, { seed = 4 })):eval()
    ridge.no_grad(function() meet[3].children[2].module.weight:mul_(9) end)
    local q = ridge.quant.static(meet, { calibrate = loader(x), rows = false })
    local function joined(at, name, value)
      assert.matches('the field ' .. name .. ' of a quant', with_tree(function(t)
        local n = 0
        for _, m in ipairs(t.modules) do
          if m.class == at then m.fields[name], n = value, n + 1 end
        end
        assert.equal(1, n)
      end, q))
    end
    joined('quant.Residual', 'inner', { 3 })
    joined('quant.Residual', 'around', 'x')
    joined('quant.Residual', 'answers', 'u8')
    joined('quant.Residual', 'b_zero', 1e3)
    joined('quant.Concat', 'axis', 'x')
    joined('quant.Concat', 'again', { ['1'] = { zero = 'x' } })
  end)
end)
