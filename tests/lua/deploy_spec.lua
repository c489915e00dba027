-- SPDX-License-Identifier: MIT
-- recipes/deploy: an ONNX file packed, the program built, and its numbers beside ridge's own.
local ridge = require 'ridge'
local nn = ridge.nn

local function said(words)
  local pipe = assert(io.popen(words .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

describe('a net that is run without Lua', function()
  local folder, net, x

  setup(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
    ridge.seed(1)
    net = nn.Sequential(nn.Conv2d(3, 16, 3, { padding = 1 }), nn.BatchNorm(16), nn.ReLU(),
      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 5)):eval()
    net[2].running_mean:copy_(ridge.randn(16))
    x = ridge.randn(2, 3, 8, 8)
    ridge.onnx.export(net, folder .. '/net.onnx', { x = x, dynamic = { input = { 'N' } },
      optimize = false })
    ridge.save(folder .. '/x.npy', x)
    ridge.save(folder .. '/short.npy', ridge.ones(3))
    local text = said(('cc -std=c11 -Icore recipes/deploy/run.c -o %s/run -Lbuild -lridge '
      .. '-Wl,-rpath,$PWD/build -Wl,--allow-shlib-undefined'):format(folder))
    assert.equal('status 0\n', text)
  end)
  teardown(function() os.execute('rm -r ' .. folder) end)

  it('gives what the net gives, behind each level of passes', function()
    local want = ridge.inference(net, x):reshape(-1):tolist()
    for _, passes in ipairs { 'none', 'standard', 'aggressive' } do
      local text = said(('./ridge recipes/deploy/pack.lua --file %s/net.onnx --folder %s --size '
        .. 'N=2 --passes %s'):format(folder, folder, passes))
      assert.matches('status 0', text, 1, true)
      text = said(('%s/run %s %s/x.npy'):format(folder, folder, folder))
      local got = {}
      for line in text:gmatch '[^\n]+' do got[#got + 1] = tonumber(line) end
      assert.equal(#want, #got, text)
      for i, value in ipairs(want) do assert.is_true(math.abs(got[i] - value) < 1e-5, text) end
    end
    assert.is_nil(said(('ldd %s/run'):format(folder)):lower():find('libluajit', 1, true))
  end)

  it('says what is wrong', function()
    local function run(words) return said(('%s/run %s'):format(folder, words)) end
    assert.equal('run: run FOLDER INPUT.npy\nstatus 1\n', run '')
    assert.matches('graph.json\nstatus 1', run('/nowhere x'), 1, true)
    assert.matches('run: .*12.*\nstatus 1', run(('%s %s/short.npy'):format(folder, folder)))
    local text = said './ridge recipes/deploy/pack.lua --file net.onnx'
    assert.matches('which file, and where to', text, 1, true)
  end)
end)
