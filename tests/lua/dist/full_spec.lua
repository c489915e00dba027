-- SPDX-License-Identifier: MIT
--- A disk that is full when a checkpoint is due, on real ranks: a small file system of its own in
--- memory, which only root may mount. Skipped where that cannot be.

local ranks = require 'tests.lua.dist.ranks'

local CHILD = 'tests/lua/dist/full_child.lua'

local function may_mount(folder)
  local _, status = ranks.output(('mount -t tmpfs -o size=128k tmpfs %s'):format(folder))
  return status == 0
end

describe('a full disk at a checkpoint', function()
  local folder = ranks.output 'mktemp -d':match '[^\n]+'
  local small = folder .. '/small'
  os.execute('mkdir ' .. small)
  local mounted = may_mount(small)
  teardown(function()
    if mounted then os.execute('umount ' .. small) end
    os.execute('rm -rf ' .. folder)
  end)
  if not mounted then
    pending('needs root that may mount a tmpfs', function() end)
    return
  end

  local function launch(...) return ranks.launch(2, CHILD, ...) end
  local function ended(text) return text:match 'ended at epoch 4 with (%d+)' end
  local function sum(name) return (ranks.output('cksum < ' .. small .. '/' .. name)) end

  ranks.several({ it = it, pending = pending }, 'ends the job; from the old one it goes on',
    function()
      os.execute('mkdir ' .. folder .. '/other')
      local text, status = launch(folder .. '/other', 4)
      assert.equal(0, status, text)
      local wanted = ended(text)
      assert.is_truthy(wanted, text)

      text, status = launch(small, 2)
      assert.equal(0, status, text)
      local last, best = sum 'last.safetensors', sum 'best.safetensors'
      text, status = launch(small, 4, 2)
      assert.equal(1, status, text)
      assert.equal(2, ranks.lines(text,
        'safetensors cannot be written: No space left on device$'), text) -- on each rank
      assert.matches('on rank 0', text, 1, true)
      assert.is_nil(ended(text))
      assert.same({ last, best }, { sum 'last.safetensors', sum 'best.safetensors' })
      -- nothing half written is left over, which would take room
      assert.equal('best.safetensors\nfiller\nlast.safetensors\n',
        (ranks.output('ls -A ' .. small)))

      os.remove(small .. '/filler')
      text, status = launch(small, 4)
      assert.equal(0, status, text)
      assert.equal(2, ranks.lines(text, 'begins at epoch%s+2$'), text)
      assert.equal(wanted, ended(text))
    end)
end)
