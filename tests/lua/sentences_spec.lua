-- SPDX-License-Identifier: MIT
--- What the calls of sentences.lua say that are refused, as approved: whether, why, and the code.

local approved = dofile 'tests/lua/approved.lua'
local folders = dofile 'tests/lua/store/folder.lua'

-- The sentence, without the caller's line; of a raw error of Lua all of it.
local function said(err)
  if type(err) ~= 'table' then return 'RAW ' .. tostring(err) end
  local text = tostring(err.message):match '^[^\n]*':gsub('%f[%w_]0x%x+', 'ADDRESS')
  return ('%s (%s)'):format(text, tostring(err.code))
end

describe('a call that is refused', function()
  it('says what was approved', function()
    local out = {}
    for _, each in ipairs(dofile 'tests/lua/sentences.lua') do
      local ok, err = pcall(each[2])
      out[#out + 1] = ('%s: %s'):format(each[1], ok and 'goes well' or said(err))
    end
    approved.check('calls/sentences', table.concat(out, '\n'))
  end)

  it('of a file, a store, a log says what was approved', function()
    local out = {}
    for _, each in ipairs(dofile 'tests/lua/sentences_more.lua') do
      local folder = folders.new()
      local ok, err = pcall(each[2], folder)
      out[#out + 1] = ('%s: %s'):format(each[1], ok and 'goes well' or said(err))
        :gsub(folder:gsub('%p', '%%%0'), 'FOLDER'):gsub('%c', ' ')
      folders.remove(folder)
    end
    approved.check('calls/sentences_more', table.concat(out, '\n'))
  end)
end)
