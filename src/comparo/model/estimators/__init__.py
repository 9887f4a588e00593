"""The methods of `comparo.fit`, one file each."""
