-- SPDX-License-Identifier: MIT
-- `ridge onnx`: what it says of files, and its status.
local FOLDER = 'tests/fixtures/onnx/ops/'

local function said(words)
  local pipe = assert(io.popen('./ridge onnx ' .. words .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

describe('ridge onnx', function()
  it('shows what is in a file', function()
    local text = said('show ' .. FOLDER .. 'flatten_by_shape.onnx')
    assert.matches('IR 8, opset 17, written by ridge', text, 1, true)
    assert.matches('input    x  f32[N,3,4]', text, 1, true)
    assert.matches('6 nodes\n     1  Concat\n     1  Gather\n', text)
    assert.matches('status 0', text, 1, true)
  end)

  it('checks that it gives the same as a plan', function()
    local text = said('check ' .. FOLDER .. 'flatten_by_shape.onnx --size N=3')
    assert.matches('ok: 6 nodes; called and as a plan it gives the same', text, 1, true)
    assert.matches('status 0', text, 1, true)
  end)

  it('takes nan and infinities that are in both for the same', function()
    local ridge = require 'ridge'
    local path = os.tmpname()
    ridge.onnx.export(function(x) return x:log(), x / 0, (x / 0) * 0 + x end, path,
      { x = ridge.ones(4, 3) })
    local text = said('check ' .. path)
    os.remove(path)
    assert.matches('ok: %d nodes; called and as a plan it gives the same\nstatus 0', text)
  end)

  it('says it, with status 1, where the plan gives something else', function()
    local ridge = require 'ridge'
    local path, graph = os.tmpname(), ridge.graph
    ridge.onnx.export(function(x) return x * 2 end, path, { x = ridge.ones(4, 3) })
    local text, plain = '', require 'ridge.plain'
    local print = plain.print
    plain.print = function(...) text = text .. table.concat { ... } end
    ridge.graph = function(m, ...)
      return graph(function(x) return m(x) * 1.1 end, ...)
    end
    local ok, status = pcall(require('ridge.cli.onnx').main, { 'check', path })
    plain.print, ridge.graph = print, graph
    os.remove(path)
    assert.same({ true, 1 }, { ok, status })
    assert.matches('NOT THE SAME: 1 node; called and as a plan it differs by 0.1 of the largest',
      text, 1, true)
  end)

  it('runs it', function()
    local text = said('run ' .. FOLDER .. 'flatten_by_shape.onnx --size N=5 --times 3')
    assert.matches('y: f32[5,2], from', text, 1, true)
    assert.matches('\n3 runs: median [%d.]+ ms', text)
  end)

  it('takes sizes and options where they mean something, and no others', function()
    local path = FOLDER .. 'flatten_by_shape.onnx'
    local shown = said('show ' .. path .. ' --size N=7')
    assert.matches('input    x  f32[7,3,4]\n', shown, 1, true)
    assert.matches('written by ridge\n', shown, 1, true)
    for words, sentence in pairs {
      ['show ' .. path .. ' --size M=7'] = "leaves no size 'M' open; it leaves N",
      ['show ' .. path .. ' --times 3'] = 'onnx show: it takes no --times',
      ['check ' .. path .. ' --tolerance 1'] = 'onnx check: it takes no --tolerance',
      ['run ' .. path .. ' --size N=2 --size N=3'] = "--size: 'N' is 2, and 3",
      ['run ' .. path .. ' --size N=99999999999999999'] = 'than can be counted with',
      ['bench --seed 3 ' .. path] = 'onnx bench: FILE comes first',
      ['--seed 3 bench ' .. path] = 'onnx bench: FILE comes first',
    } do
      local text = said(words)
      assert.matches(sentence, text, 1, true)
      assert.matches('status 1', text, 1, true)
    end
  end)

  it('refuses what is no file of ONNX, and what it does not know', function()
    assert.matches('README.md: .-status 1', said 'check README.md')
    assert.matches('known: show, check, run', said 'shew README.md', 1, true)
    assert.matches("%-%-size is NAME=NUMBER, got 'N'", said('run ' .. FOLDER
      .. 'softmax.onnx --size N'))
  end)

  it('names the file that is meant, whatever it is called', function()
    local folder = require('tests.lua.store.folder').in_memory()
    local f = assert(io.open(folder .. '/nn.onnx', 'w'))
    f:write 'no model'
    f:close()
    local every = 'tests/fixtures/onnx/every.onnx'
    for words, sentence in pairs {
      ['check nn.onnx'] = 'ridge onnx: nn.onnx: ',
      ['bench nn.onnx'] = 'ridge onnx: onnx bench: nn.onnx: ',
      ['bench gone.onnx'] = 'ridge onnx: onnx bench: gone.onnx: No such file',
      ['run every.onnx'] = 'ridge onnx: every.onnx: 2 nodes of 2 operators that ridge has not',
      ['diff softmax.onnx every.onnx'] = 'ridge onnx: every.onnx: 2 nodes',
    } do
      local root = assert(io.popen 'pwd'):read '*l'
      local command = "cp %s %ssoftmax.onnx '%s' && cd '%s' && '%s/ridge' onnx %s 2>&1"
      local pipe = assert(io.popen(command:format(every, FOLDER, folder, folder, root, words)))
      local text = pipe:read '*a'
      pipe:close()
      assert.matches(sentence, text, 1, true)
      assert.is_nil(text:find('recipes/', 1, true))
    end
    os.execute("rm -rf '" .. folder .. "'")
  end)
end)
