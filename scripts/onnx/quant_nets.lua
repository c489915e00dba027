-- SPDX-License-Identifier: MIT
--- Nets before and after static quantization as ONNX files, with the data they were calibrated on,
--- for `quant_check.py`; prints a line for each.
---
---   ./ridge scripts/onnx/quant_nets.lua FOLDER

local ridge = require 'ridge'
local nn = ridge.nn

local FOLDER = assert(arg[1], 'a folder')

local function conv(c_in, c_out, kernel, seed, more)
  local opts = { padding = (kernel - 1) / 2, seed = seed }
  for name, value in pairs(more or {}) do opts[name] = value end
  return nn.Conv2d(c_in, c_out, kernel, opts)
end

local function inner(n, seed)
  return nn.Sequential(conv(n, n, 3, seed), nn.ReLU(), conv(n, n, 3, seed + 1))
end

local function fire(c_in, c_out, seed)
  return nn.Concat(2, conv(c_in, c_out, 1, seed, { activation = 'relu' }),
    conv(c_in, c_out, 3, seed + 1, { activation = 'relu' }))
end

-- name, net, input, how many of its modules give bytes
local NETS = {
  { 'MLP', nn.Sequential(nn.Linear(64, 128, { seed = 1 }), nn.ReLU(), nn.Linear(128, 64,
    { seed = 2 }), nn.ReLU(), nn.Linear(64, 10, { seed = 3 })), { 256, 64 }, 4 },
  { 'LeNet', nn.Sequential(conv(1, 6, 5, 1), nn.ReLU(), nn.MaxPool2d(2), conv(6, 16, 5, 2),
    nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 84, { seed = 3 }), nn.ReLU(),
    nn.Linear(84, 10, { seed = 4 })), { 64, 1, 16, 16 }, 9 },
  { 'depthwise', nn.Sequential(conv(3, 16, 3, 1), nn.ReLU(), conv(16, 16, 3, 2, { groups = 16 }),
    nn.ReLU(), conv(16, 8, 1, 3)), { 32, 3, 12, 12 }, 4 },
  { 'residual net', nn.Sequential(conv(3, 8, 3, 1), nn.ReLU(), nn.Residual(inner(8, 2)), nn.ReLU(),
    nn.Residual(inner(8, 4)), nn.ReLU(), conv(8, 4, 1, 6)), { 32, 3, 12, 12 }, 6 },
  { 'fire modules', nn.Sequential(conv(3, 8, 3, 1), nn.ReLU(), fire(8, 8, 2), conv(16, 8, 1, 4),
    nn.ReLU(), fire(8, 8, 5), nn.MaxPool2d(2), conv(16, 4, 1, 7)), { 32, 3, 12, 12 }, 7 },
  -- what no vector and no block divides
  { 'odd sizes', nn.Sequential(nn.Linear(63, 129, { seed = 1 }), nn.ReLU(), nn.Linear(129, 31,
    { seed = 2 }), nn.ReLU(), nn.Linear(31, 7, { seed = 3 })), { 37, 63 }, 4 },
  { 'groups', nn.Sequential(conv(6, 9, 3, 1, { groups = 3 }), nn.ReLU(), conv(9, 15, 3, 2,
    { groups = 3, stride = 2 }), nn.ReLU(), conv(15, 15, 5, 3, { groups = 15 }), nn.ReLU(),
    conv(15, 5, 1, 4)), { 7, 6, 13, 11 }, 6 },
}

local SCHEMES = { { 'u8', 'fbgemm' }, { 'i8', 'fbgemm' }, { 'u8', 'qnnpack' } }

local function store(name, x) ridge.save(('%s/%s.npy'):format(FOLDER, name), x) end

for i, row in ipairs(NETS) do
  local name, net, shape, n_bytes = unpack(row)
  net:eval()
  local generator = ridge.generator(i)
  shape[#shape + 1] = { generator = generator }
  local x, fresh = ridge.randn(unpack(shape)), ridge.randn(unpack(shape))
  ridge.onnx.export(net, ('%s/%d.f32.onnx'):format(FOLDER, i), { x = x })
  store(('%d.x'):format(i), x)
  store(('%d.fresh'):format(i), fresh)
  for _, scheme in ipairs(SCHEMES) do
    local q = ridge.quant.static(net, { calibrate = ridge.data.Loader({ x }, { batch = x:size(1) }),
      rows = false, activations = scheme[1], backend = scheme[2] })
    local base = ('%d.%s.%s'):format(i, scheme[1], scheme[2])
    local function bytes(v)
      for at = 1, n_bytes do v = q[at](v) end
      return v
    end
    local whole = ridge.onnx.export(q, ('%s/%s.onnx'):format(FOLDER, base), { x = fresh,
      opset = 13 })
    ridge.onnx.export(bytes, ('%s/%s.bytes.onnx'):format(FOLDER, base), { x = fresh, opset = 13 })
    store(base .. '.y', ridge.inference(q, fresh))
    store(base .. '.bytes', ridge.inference(bytes, fresh))
    print(table.concat({ i, name, scheme[1], scheme[2], whole.nodes,
      tostring(whole.validation_passed) }, '\t'))
  end
end
