"""The voices: model providers behind one small streaming protocol."""
