-- SPDX-License-Identifier: MIT
-- Every file that the GPU's sources include, directly or through others, is among what their
-- objects are made again for (GPU_DEP, gpu/gpu.mk): a stale one would keep the old layout of a
-- struct.

local function lines(command)
  local pipe = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function is_there(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

describe('objects of the GPU sources', function()
  it('are made again for every file that they include', function()
    local named = {}
    for _, line in ipairs(lines 'MAKEFLAGS= make -pnq 2>/dev/null') do
      for path in (line:match '^GPU_DEP := (.*)' or ''):gmatch '%S+' do named[path] = true end
    end
    assert.is_not_nil(next(named))
    local open, seen, missing = lines 'ls gpu/*.cu gpu/*/*.cu', {}, {}
    assert.is_true(#open > 30)
    while #open > 0 do
      local path = table.remove(open)
      for line in io.lines(path) do
        local name = line:match '^%s*#%s*include%s*"([^"]+)"'
        for _, folder in ipairs(name and { 'gpu/c/', 'core/', '', path:match '^(.*/)' } or {}) do
          local found = folder .. name
          if is_there(found) and not seen[found] then
            seen[found] = true
            open[#open + 1] = found
            if not named[found] then missing[#missing + 1] = found end
          end
        end
      end
    end
    assert.same({}, missing)
    assert.is_true(seen['core/base/base.h'] and seen['core/tensor/tensor.h'])
  end)
end)
